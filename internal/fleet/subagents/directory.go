package subagents

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The files of a definition.
const (
	agentFile  = "agent.md"
	memoryFile = "memory.md"
)

// directory is where definitions are. What is in it may change at any time: a file is looked at each time it is asked
// for, and read again when it has changed.
type directory struct {
	path    string
	drivers []string
	now     func() time.Time

	mu    sync.Mutex
	known map[string]entry // by name
}

// entry is what a definition's files said when they were read.
type entry struct {
	agent, memory stamp
	read          time.Time
	definition    *Definition
	broken        error // why there is none
}

// stamp tells whether a file has changed.
type stamp struct {
	size     int64
	modified time.Time
}

// settling is how long after a change of a file another one may go unseen, since file systems have coarse clocks.
const settling = 100 * time.Millisecond

// trusted says whether the files are certainly those that were read.
func (e entry) trusted(agent, memory stamp) bool {
	return e.agent == agent && e.memory == memory &&
		e.read.Sub(agent.modified) > settling && e.read.Sub(memory.modified) > settling
}

// errNoDefinition says that there is no definition of the name.
var errNoDefinition = errors.New("no definition")

// get returns the definition of the name. errNoDefinition when there is none; another error says in words why it cannot
// be used.
func (d *directory) get(name string) (*Definition, error) {
	if !namePattern.MatchString(name) || name == Main {
		return nil, errNoDefinition
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, d.unreadable(err)
	}
	defer func() { _ = root.Close() }()
	return d.load(root, name)
}

// load returns the definition in the directory of the name, which is a plain one.
func (d *directory) load(root *os.Root, name string) (*Definition, error) {
	agent, err := look(root, name, agentFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoDefinition
	}
	if err != nil {
		return nil, err
	}
	memory, err := look(root, name, memoryFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d.mu.Lock()
	e, ok := d.known[name]
	d.mu.Unlock()
	if ok && e.trusted(agent, memory) {
		return e.definition, e.broken
	}
	e = entry{agent: agent, memory: memory, read: d.now()}
	e.definition, e.broken = d.read(root, name, memory != stamp{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]entry{}
	}
	d.known[name] = e
	return e.definition, e.broken
}

func (d *directory) read(root *os.Root, name string, remembers bool) (*Definition, error) {
	data, err := readFile(root, name, agentFile)
	if err != nil {
		return nil, err
	}
	var memory []byte
	if remembers {
		if memory, err = readFile(root, name, memoryFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	definition, err := parse(name, data, memory, d.drivers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(name, agentFile), err)
	}
	return definition, nil
}

// all returns every definition, and why others cannot be used, by name.
func (d *directory) all() (definitions []*Definition, broken map[string]error, err error) {
	broken = map[string]error{}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		if err := d.unreadable(err); !errors.Is(err, errNoDefinition) {
			return nil, nil, err
		}
		return nil, broken, nil
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, nil, d.unreadable(err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if name == Main || strings.HasPrefix(name, ".") || !e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if !namePattern.MatchString(name) {
			if _, err := look(root, name, agentFile); err == nil {
				broken[name] = errors.New("a subagent's name is 1 to 64 letters, digits, hyphens and underscores: rename its directory")
			}
			continue
		}
		definition, err := d.load(root, name)
		switch {
		case err == nil:
			definitions = append(definitions, definition)
		case errors.Is(err, errNoDefinition):
			continue
		default:
			broken[name] = err
		}
		seen[name] = true
	}
	d.forget(seen)
	slices.SortFunc(definitions, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	return definitions, broken, nil
}

// forget drops what is known of definitions that are gone.
func (d *directory) forget(seen map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.known {
		if !seen[name] {
			delete(d.known, name)
		}
	}
}

// unreadable is the error of a directory that cannot be read; one that is not there has no definitions.
func (d *directory) unreadable(err error) error {
	if d.path == "" || errors.Is(err, fs.ErrNotExist) {
		return errNoDefinition
	}
	return fmt.Errorf("the directory of the subagents cannot be read: %w", cause(err))
}

// look returns the stamp of a file. Links are followed as far as they stay in the directory of all definitions.
func look(root *os.Root, name, file string) (stamp, error) {
	info, err := root.Stat(filepath.Join(name, file))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return stamp{}, fs.ErrNotExist
	case err != nil:
		return stamp{}, fmt.Errorf("%s cannot be read: %w", filepath.Join(name, file), cause(err))
	case !info.Mode().IsRegular():
		return stamp{}, fmt.Errorf("%s is not a plain file", filepath.Join(name, file))
	case info.Size() > maxFile:
		return stamp{}, fmt.Errorf("%s has %d bytes, and at most %d are taken", filepath.Join(name, file), info.Size(), maxFile)
	}
	return stamp{size: info.Size(), modified: info.ModTime()}, nil
}

func readFile(root *os.Root, name, file string) ([]byte, error) {
	f, err := root.OpenFile(filepath.Join(name, file), os.O_RDONLY|syscall.O_NONBLOCK, 0) // what is no plain file by now must not block
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(name, file), cause(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(name, file), cause(err))
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s has more than the %d bytes that are taken", filepath.Join(name, file), maxFile)
	}
	return data, nil
}

// cause is the reason of a file system's error, without the path, which is the server's own.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
