package subagents

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"fleet/internal/fleet"
)

// directory is the directory of definitions. Its content may change at any time, so each access checks the files and reads
// changed files again.
type directory struct {
	path    string
	drivers []fleet.Driver
	now     func() time.Time

	mu      sync.Mutex
	entries map[string]entry // by the path of the definition's file
}

// entry is the result of reading the files of a definition.
type entry struct {
	agent, memory fileVersion
	readAt        time.Time
	definition    *Definition
	err           error // why definition is nil
}

// fileVersion identifies a version of a file.
type fileVersion struct {
	size     int64
	modified time.Time
}

// minSettleTime is the time after a change of a file in which a second change may leave the modification time the same,
// because file systems have coarse clocks.
const minSettleTime = 100 * time.Millisecond

// isCurrent reports whether the files are certainly unchanged since they were read.
func (e entry) isCurrent(agent, memory fileVersion) bool {
	return e.agent == agent && e.memory == memory &&
		e.readAt.Sub(agent.modified) > minSettleTime && e.readAt.Sub(memory.modified) > minSettleTime
}

// errNoDefinition means that no file has the definition.
var errNoDefinition = errors.New("no definition")

// get returns the definition with the name. It returns errNoDefinition if no file defines the name, and another error if the
// file that defines it cannot be used.
func (d *directory) get(name string) (*Definition, error) {
	if !namePattern.MatchString(name) || name == MainCaller {
		return nil, errNoDefinition
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, d.readError(err)
	}
	defer func() { _ = root.Close() }()
	// Try NAME/agent.md first, to avoid checking every file.
	definition, err := d.load(root, directorySource(name))
	if !errors.Is(err, errNoDefinition) {
		return definition, err
	}
	found, err := d.scan(root)
	if err != nil {
		return nil, err
	}
	if definition := found.definitions[name]; definition != nil {
		return definition, nil
	}
	if err := found.loadErrs[name]; err != nil {
		return nil, err
	}
	return nil, errNoDefinition
}

// load returns the definition in the file. It returns errNoDefinition if the file does not exist or has no frontmatter,
// and another error if the file cannot be used.
func (d *directory) load(root *os.Root, src source) (*Definition, error) {
	agent, err := statFile(root, src.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoDefinition
	}
	if err != nil {
		return nil, err
	}
	memory := fileVersion{}
	if src.memory != "" {
		if memory, err = statFile(root, src.memory); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	d.mu.Lock()
	e, ok := d.entries[src.file]
	d.mu.Unlock()
	if ok && e.isCurrent(agent, memory) {
		return e.definition, e.err
	}
	e = entry{agent: agent, memory: memory, readAt: d.now()}
	e.definition, e.err = d.read(root, src, memory != fileVersion{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries == nil {
		d.entries = map[string]entry{}
	}
	d.entries[src.file] = e
	return e.definition, e.err
}

// read reads and parses the file and, if hasMemory is true, its memory.md.
func (d *directory) read(root *os.Root, src source, hasMemory bool) (*Definition, error) {
	data, err := readFile(root, src.file)
	if err != nil {
		return nil, err
	}
	if src.isSingleFile && !hasFrontmatter(data) {
		return nil, errNoDefinition // for example a README
	}
	var memory []byte
	if hasMemory {
		if memory, err = readFile(root, src.memory); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	definition, err := parse(src, data, memory, d.drivers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.file, err)
	}
	return definition, nil
}

// all returns every definition, sorted by name, and the errors of the files that cannot be used, see scanResult.
func (d *directory) all() (definitions []*Definition, loadErrs map[string]error, err error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		if err := d.readError(err); !errors.Is(err, errNoDefinition) {
			return nil, nil, err
		}
		return nil, map[string]error{}, nil
	}
	defer func() { _ = root.Close() }()
	found, err := d.scan(root)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range sortedKeys(found.definitions) {
		definitions = append(definitions, found.definitions[name])
	}
	return definitions, found.loadErrs, nil
}

// scanResult holds the definitions of a directory.
type scanResult struct {
	definitions map[string]*Definition // by name
	loadErrs    map[string]error       // by name, or by file if another file defines the name
}

// scan loads every file that findSources returns, in this order. If two files define the same name, it uses the first one.
// It also forgets the entries of files that no longer exist.
func (d *directory) scan(root *os.Root) (scanResult, error) {
	found := scanResult{definitions: map[string]*Definition{}, loadErrs: map[string]error{}}
	sources, err := findSources(root)
	if err != nil {
		return found, d.readError(err)
	}
	fileOf, files := map[string]string{}, map[string]bool{} // by name, by file
	for _, src := range sources {
		definition, err := d.load(root, src)
		if errors.Is(err, errNoDefinition) {
			continue
		}
		files[src.file] = true
		switch {
		case err != nil:
			name := src.name
			if fileOf[name] != "" {
				name = src.file
			}
			found.loadErrs[name] = err
		case fileOf[definition.Name] != "":
			found.loadErrs[src.file] = fmt.Errorf("%s: the subagent %q is already defined in %s: rename one of them", src.file, definition.Name, fileOf[definition.Name])
		default:
			fileOf[definition.Name] = src.file
			found.definitions[definition.Name] = definition
		}
	}
	d.forgetExcept(files)
	return found, nil
}

// forgetExcept drops the entries of all files that are not in files.
func (d *directory) forgetExcept(files map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for file := range d.entries {
		if !files[file] {
			delete(d.entries, file)
		}
	}
}

// readError returns the error for a directory that cannot be read. It returns errNoDefinition if the directory does
// not exist or none is configured.
func (d *directory) readError(err error) error {
	if d.path == "" || errors.Is(err, fs.ErrNotExist) {
		return errNoDefinition
	}
	return fmt.Errorf("the directory of the subagents cannot be read: %w", withoutPath(err))
}

// statFile returns the version of a file. It follows links that stay within the directory of definitions. It returns
// fs.ErrNotExist if there is no such file, and another error if the file is not regular or is larger than maxFile.
func statFile(root *os.Root, file string) (fileVersion, error) {
	info, err := root.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fileVersion{}, fs.ErrNotExist
	case err != nil:
		return fileVersion{}, fmt.Errorf("%s cannot be read: %w", file, withoutPath(err))
	case !info.Mode().IsRegular():
		return fileVersion{}, fmt.Errorf("%s is not a regular file", file)
	case info.Size() > maxFile:
		return fileVersion{}, fmt.Errorf("%s has %d bytes, and the limit is %d", file, info.Size(), maxFile)
	}
	return fileVersion{size: info.Size(), modified: info.ModTime()}, nil
}

// readFile returns the content of a file. It returns an error if the file is larger than maxFile.
func readFile(root *os.Root, file string) ([]byte, error) {
	f, err := root.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // if the file has become a FIFO, opening must not block
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", file, withoutPath(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", file, withoutPath(err))
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s has more than %d bytes, which is the limit", file, maxFile)
	}
	return data, nil
}

// withoutPath returns the cause of a file system error without the server's path.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
