package definition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"fleet/internal/fleet"
)

// DefaultApprovedTypes are the types of toolsets whose tools run without permission, because they do only what their definition
// says. With the tools of other types (shell, filesystem and lsp) a model can change files, so a definition must say which of these
// tools it allows.
var DefaultApprovedTypes = []string{"think", "todo", "memory", "fetch", "mcp", "api", "a2a", "script"}

// CatalogConfig configures a Catalog.
type CatalogConfig struct {
	AgentsDir string // directory of YAML files; empty: the catalog has no files
	StoreDir  string // directory for pulled artifacts; empty: pulling is disabled
	// NoPrograms makes the catalog refuse definitions that run programs on this machine.
	NoPrograms bool
	// Policy limits pulled definitions.
	Policy Policy
	// Registries are the hosts from which artifacts may be pulled; nil: any host.
	Registries []string
	// Login selects the credentials for registries: LoginDocker, or another value for no credentials.
	Login string
	// PullTimeout limits the time of one pull; 0: 60 s.
	PullTimeout time.Duration
	// ApprovedTypes are the types of toolsets whose tools run without permission; nil: DefaultApprovedTypes.
	ApprovedTypes []string

	LookupEnv func(string) (string, bool) // nil: os.LookupEnv
}

// LoginDocker is the value of CatalogConfig.Login for the credentials of `docker login`. They are in the Docker
// configuration of the server's user, or come from the credential helpers that it names.
const LoginDocker = "docker"

// Catalog holds the definitions in a directory and the definitions that were pulled from registries. It is safe for
// concurrent use.
type Catalog struct {
	config CatalogConfig

	mu    sync.Mutex
	cache map[string]cachedFile // cached files, by path in the directory
}

// cachedFile is a cached definition, with the size and the time of its file when it was read.
type cachedFile struct {
	size int64
	time time.Time
	def  fleet.Definition
}

var _ fleet.Catalog = (*Catalog)(nil)

// NewCatalog returns a Catalog. The directories need not exist yet.
func NewCatalog(c CatalogConfig) *Catalog {
	c.PullTimeout = cmp.Or(c.PullTimeout, time.Minute)
	if c.ApprovedTypes == nil {
		c.ApprovedTypes = slices.Clone(DefaultApprovedTypes)
	}
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	return &Catalog{config: c, cache: map[string]cachedFile{}}
}

// These limit the files of the agents directory that Files returns.
const (
	maxFiles     = 10_000
	maxFileDepth = 8
)

// Files implements fleet.Catalog. It uses the cached definition of a file whose size and modification time have not changed.
func (c *Catalog) Files(ctx context.Context) ([]fleet.Definition, error) {
	if c.config.AgentsDir == "" {
		return nil, nil
	}
	dir, err := os.OpenRoot(c.config.AgentsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, hostError("cannot read the agents directory", err)
	}
	defer func() { _ = dir.Close() }()
	var all []fleet.Definition
	err = fs.WalkDir(dir.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil //nolint:nilerr // skip what cannot be read
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(name, "/") >= maxFileDepth):
			return fs.SkipDir
		case e.IsDir() || !isYAML(name) || strings.HasPrefix(e.Name(), "."):
			return nil
		case len(all) == maxFiles:
			return fs.SkipAll
		}
		all = append(all, c.readDefinition(dir, name))
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b fleet.Definition) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// isYAML reports whether the name of the file has the extension of a YAML document.
func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// File implements fleet.Catalog.
func (c *Catalog) File(ctx context.Context, name string) (fleet.Definition, error) {
	notFound := fleet.Errorf(fleet.ReasonAgentNotFound, "there is no definition %q in the agents directory", fleet.Shorten(name, 200)).Next("{list_agents} shows the definitions")
	if err := ctx.Err(); err != nil || c.config.AgentsDir == "" || strings.ContainsRune(name, 0) {
		return fleet.Definition{}, cmp.Or(err, error(notFound))
	}
	dir, err := os.OpenRoot(c.config.AgentsDir)
	if err != nil {
		return fleet.Definition{}, notFound
	}
	defer func() { _ = dir.Close() }()
	for _, p := range c.candidatePaths(name) {
		for _, p := range []string{p, p + ".yaml", p + ".yml"} {
			if !isYAML(p) {
				continue
			}
			if _, err := dir.Stat(p); err != nil {
				continue // callers must not be able to tell a missing file from one outside the directory
			}
			d := c.readDefinition(dir, p)
			if d.Problem != "" {
				return d, fleet.Errorf(fleet.ReasonDefinitionInvalid, "the definition %q cannot be used: %s", d.Path, d.Problem)
			}
			return d, nil
		}
	}
	return fleet.Definition{}, notFound
}

// candidatePaths returns the paths in the agents directory to which name may refer. A relative path may be relative to the agents
// directory, or to the server's working directory if the result is in the agents directory. A path that begins with ~/ is in the home
// directory of the server's user.
func (c *Catalog) candidatePaths(name string) (all []string) {
	dir, err := filepath.Abs(c.config.AgentsDir)
	if err != nil {
		return nil
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil
		}
		name = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(name) {
		if filepath.IsLocal(name) {
			all = append(all, filepath.ToSlash(filepath.Clean(name)))
		}
		if name, err = filepath.Abs(name); err != nil {
			return all
		}
	}
	if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
		all = append(all, filepath.ToSlash(rel))
	}
	return all
}

// readDefinition reads a definition. If the definition cannot be used, its Problem says why.
func (c *Catalog) readDefinition(dir *os.Root, name string) fleet.Definition {
	d := fleet.Definition{Name: strings.TrimSuffix(name, path.Ext(name)), Source: fleet.DefinitionFiles, Path: name}
	info, err := dir.Stat(name)
	switch {
	case err != nil:
		d.Problem = "it cannot be read, or it leads out of the agents directory"
		return d
	case !info.Mode().IsRegular():
		d.Problem = "it is not a regular file"
		return d
	case info.Size() > MaxDocument:
		d.Problem = fmt.Sprintf("it is larger than the limit of %d bytes for a definition", MaxDocument)
		return d
	}
	c.mu.Lock()
	old, ok := c.cache[name]
	c.mu.Unlock()
	if ok && old.size == info.Size() && old.time.Equal(info.ModTime()) {
		return old.def
	}
	document, err := readFile(dir, name)
	if err != nil {
		d.Problem = "it cannot be read"
		return d
	}
	if p := c.describe(&d, document); p != nil && c.config.NoPrograms {
		if err := p.CheckPrograms(); err != nil {
			d.Problem = err.Error()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cache) > 2*maxFiles {
		clear(c.cache)
	}
	c.cache[name] = cachedFile{info.Size(), info.ModTime(), d}
	return d
}

// readFile reads a file. It does not block, even if the file was replaced by a FIFO after it was found.
func readFile(dir *os.Root, name string) ([]byte, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, MaxDocument+1))
}

// describe fills in d from the document, and returns the parsed definition. If the document is invalid, it sets
// d.Problem and returns nil.
func (c *Catalog) describe(d *fleet.Definition, document []byte) *ParsedDefinition {
	p, err := Parse(document)
	if err != nil {
		d.Problem = err.Error()
		return nil
	}
	d.Document, d.Description, d.Agents = string(document), fleet.Shorten(p.description(), 500), p.Agents
	d.Warnings = slices.Concat(p.Warnings, p.serverWarnings(c.config.LookupEnv, c.config.ApprovedTypes))
	return p
}

// hostError returns BACKEND_UNAVAILABLE for an operation that failed on this machine and may succeed later. what says
// what failed, such as "cannot read the agents directory". The cause is only logged, because callers must not see it.
func hostError(what string, err error) *fleet.Error {
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s; the server's log has the cause", what).WithCause(err)
}
