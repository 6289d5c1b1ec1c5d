package cagent

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
	"fleet/internal/fleet/sessions"
)

// CatalogConfig says where definitions are.
type CatalogConfig struct {
	AgentsDir string // with YAML files; empty: there are none
	StoreDir  string // for artifacts that are pulled; empty: nothing can be pulled
	// NoPrograms refuses definitions that run programs on this machine.
	NoPrograms bool
	// Policy is what pulled definitions may want.
	Policy Policy
	// Registries are the hosts that artifacts may be pulled from; nil: any.
	Registries []string
	// Login is what registries are asked with: LoginDocker, or nothing.
	Login string
	// PullTimeout bounds one pull; 0 means 60 s.
	PullTimeout time.Duration
	// Approve are the types of toolsets whose tools need no permission; nil means DefaultApprove.
	Approve []string

	LookupEnv func(string) (string, bool) // nil means os.LookupEnv
}

// LoginDocker is the value of CatalogConfig.Login for the logins of `docker login`: those in the Docker configuration
// of the server's user, and of its credential helpers.
const LoginDocker = "docker"

// Catalog has the definitions in a directory and those that were pulled. It is safe for concurrent use.
type Catalog struct {
	config CatalogConfig

	mu   sync.Mutex
	read map[string]reading // files that were read, by path in the directory
}

// reading is a file as it was when it was read.
type reading struct {
	size int64
	time time.Time
	def  sessions.Definition
}

var _ sessions.Catalog = (*Catalog)(nil)

// NewCatalog returns a catalog. Nothing needs to be there yet.
func NewCatalog(c CatalogConfig) *Catalog {
	c.PullTimeout = cmp.Or(c.PullTimeout, time.Minute)
	if c.Approve == nil {
		c.Approve = slices.Clone(DefaultApprove)
	}
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	return &Catalog{config: c, read: map[string]reading{}}
}

const (
	maxFiles     = 10_000
	maxFileDepth = 8
)

// Files implements sessions.Catalog. A file is read again when it has changed.
func (c *Catalog) Files(ctx context.Context) ([]sessions.Definition, error) {
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
	var all []sessions.Definition
	err = fs.WalkDir(dir.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil //nolint:nilerr // what cannot be looked into has no definitions that can be used
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(name, "/") >= maxFileDepth):
			return fs.SkipDir
		case e.IsDir() || !isDefinition(name) || strings.HasPrefix(e.Name(), "."):
			return nil
		case len(all) == maxFiles:
			return fs.SkipAll
		}
		all = append(all, c.file(dir, name))
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b sessions.Definition) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

func isDefinition(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// File implements sessions.Catalog.
func (c *Catalog) File(ctx context.Context, name string) (sessions.Definition, error) {
	missing := fleet.Errorf(fleet.ReasonAgentNotFound, "there is no definition %q in the agents directory", clip(name, 200)).Next("{list_agents} shows what there is")
	if err := ctx.Err(); err != nil || c.config.AgentsDir == "" || strings.ContainsRune(name, 0) {
		return sessions.Definition{}, cmp.Or(err, error(missing))
	}
	dir, err := os.OpenRoot(c.config.AgentsDir)
	if err != nil {
		return sessions.Definition{}, missing
	}
	defer func() { _ = dir.Close() }()
	for _, p := range c.places(name) {
		for _, p := range []string{p, p + ".yaml", p + ".yml"} {
			if !isDefinition(p) {
				continue
			}
			if _, err := dir.Stat(p); err != nil {
				continue // not there, or it leads out: which of them is nobody's business
			}
			d := c.file(dir, p)
			if d.Problem != "" {
				return d, fleet.Errorf(fleet.ReasonDefinitionInvalid, "the definition %q cannot be used: %s", d.Path, d.Problem)
			}
			return d, nil
		}
	}
	return sessions.Definition{}, missing
}

// places are where in the agents directory the caller may mean: a path is seen from the directory, and from where the
// server runs when that leads into it.
func (c *Catalog) places(name string) (all []string) {
	dir, err := filepath.Abs(c.config.AgentsDir)
	if err != nil {
		return nil
	}
	candidates := []string{name}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		h, err := os.UserHomeDir()
		if err != nil {
			return nil
		}
		candidates = []string{filepath.Join(h, rest)}
	}
	for _, n := range candidates {
		if !filepath.IsAbs(n) {
			if filepath.IsLocal(n) {
				all = append(all, filepath.ToSlash(filepath.Clean(n)))
			}
			if n, err = filepath.Abs(n); err != nil {
				continue
			}
		}
		if rel, err := filepath.Rel(dir, n); err == nil && filepath.IsLocal(rel) {
			all = append(all, filepath.ToSlash(rel))
		}
	}
	return all
}

// file reads a definition, or says why it cannot be used.
func (c *Catalog) file(dir *os.Root, name string) sessions.Definition {
	d := sessions.Definition{Name: strings.TrimSuffix(name, path.Ext(name)), Source: sessions.SourceFiles, Path: name}
	info, err := dir.Stat(name)
	switch {
	case err != nil:
		d.Problem = "it cannot be read, or it leads out of the agents directory"
		return d
	case !info.Mode().IsRegular():
		d.Problem = "it is not a regular file"
		return d
	case info.Size() > MaxDocument:
		d.Problem = fmt.Sprintf("it is larger than a definition can be, %d bytes", MaxDocument)
		return d
	}
	c.mu.Lock()
	old, ok := c.read[name]
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
		if err := checkPrograms(p); err != nil {
			d.Problem = err.Error()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.read) > 2*maxFiles {
		clear(c.read)
	}
	c.read[name] = reading{info.Size(), info.ModTime(), d}
	return d
}

// readFile reads a file that may have been exchanged for something else in the meantime.
func readFile(dir *os.Root, name string) ([]byte, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, MaxDocument+1))
}

// describe says what is in the document.
func (c *Catalog) describe(d *sessions.Definition, document []byte) *definition {
	p, err := parse(document)
	if err != nil {
		d.Problem = err.Error()
		return nil
	}
	d.Document, d.Description, d.Agents = string(document), clip(p.description(), 500), p.agents
	d.Warnings = slices.Concat(p.warnings, p.advise(c.config.LookupEnv, c.config.Approve))
	return p
}
