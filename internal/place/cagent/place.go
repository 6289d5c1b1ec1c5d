//go:build cgo

package cagent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fleet/internal/fleet"
)

// Place is a fleet.Place. Make one with New.
type Place struct {
	config      Config
	lock        *os.File
	secrets     *secrets // for definitions
	toolSecrets *secrets // for registered tools

	closed atomic.Bool // set under mu

	memories sync.Mutex // held while files of memories are read and written

	mu     sync.Mutex
	agents map[string]*member // that exist, by uid
	runs   sync.WaitGroup
}

// member is an agent that exists.
type member struct {
	home  home
	rec   *record
	todos sync.Mutex // held while its lists of todos are read and written

	mu      sync.Mutex
	stopped bool
	gone    bool
	run     *run // under way, or the last one of this process
}

// New returns a backend over the agents in the directory. It starts nothing.
func New(c Config) (*Place, error) {
	c.fill()
	if err := stayHome(); err != nil {
		return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "cagent needs a home directory: set HOME").Because(err)
	}
	onWire()
	if err := os.MkdirAll(filepath.Join(c.Dir, "agents"), 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(c.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	b := &Place{
		config: c, lock: lock, agents: map[string]*member{},
		secrets:     &secrets{lookup: c.LookupEnv},
		toolSecrets: &secrets{lookup: c.LookupEnv, only: append([]string{}, c.ToolEnv...)},
	}
	if err := b.load(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return b, nil
}

// lockFile locks the file until it is closed.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "the directory %s is in use by another server: give each its own", filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// load reads which agents there are. What was being made or deleted when the process ended is finished.
func (b *Place) load() error {
	dirs, err := os.ReadDir(filepath.Join(b.config.Dir, "agents"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		h := home(filepath.Join(b.config.Dir, "agents", d.Name()))
		var rec record
		if strings.HasPrefix(d.Name(), ".") || !h.exists("agent.json") {
			if err := os.RemoveAll(string(h)); err != nil {
				return err
			}
			continue
		}
		if err := h.read("agent.json", &rec); err != nil {
			return err
		}
		b.agents[rec.UID] = &member{home: h, rec: &rec, stopped: h.exists("stopped")}
	}
	return nil
}

func (b *Place) startTimeout() time.Duration { return min(b.config.ToolTimeout, 30*time.Second) }

// agent returns the agent; nil when there is none.
func (b *Place) agent(uid string) *member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents[uid]
}

// Traits implements fleet.Place.
func (*Place) Traits() fleet.Traits { return fleet.Traits{Name: "cagent", Drivers: []string{Driver}} }

// Projects implements fleet.Place: the definitions in the agents directory.
func (b *Place) Projects(ctx context.Context) ([]fleet.Project, error) {
	if err := ctx.Err(); err != nil || b.config.Catalog == nil {
		return nil, err
	}
	files, err := b.config.Catalog.Files(ctx)
	if err != nil {
		return nil, err
	}
	var all []fleet.Project
	for _, f := range files {
		if f.Problem == "" && !strings.Contains(f.Name, "/") {
			all = append(all, fleet.Project{Name: f.Name, Description: f.Description})
		}
	}
	slices.SortFunc(all, func(x, y fleet.Project) int { return cmp.Compare(x.Name, y.Name) })
	return all, nil
}

// Roles implements fleet.Place: the agents of a definition.
func (b *Place) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, d, err := b.project(ctx, project)
	if err != nil {
		return nil, err
	}
	var roles []fleet.Role
	for i, name := range d.agents {
		roles = append(roles, fleet.Role{Name: name, Description: d.config.Agents[name].Description, Default: i == 0})
	}
	return roles, nil
}

// project returns the document of a project, and what is in it.
func (b *Place) project(ctx context.Context, name string) (string, *definition, error) {
	if b.config.Catalog != nil {
		files, err := b.config.Catalog.Files(ctx)
		if err != nil {
			return "", nil, err
		}
		for _, f := range files {
			if f.Name == name && f.Problem == "" {
				d, err := parse([]byte(f.Document))
				return f.Document, d, err
			}
		}
	}
	return "", nil, fleet.Errorf(fleet.ReasonProjectNotFound, "there is no definition %q in the agents directory", clip(name, 60))
}

// Log implements fleet.Place.
func (b *Place) Log(ctx context.Context, a fleet.Agent, n int) ([]string, bool, error) {
	x := b.agent(a.UID)
	if err := ctx.Err(); err != nil || x == nil {
		return nil, false, err
	}
	lines, more, err := x.home.lines(n)
	if err != nil {
		return nil, false, hostError("the agent's log cannot be read", err)
	}
	return lines, more, nil
}

// Close implements fleet.Place. Runs that are under way have failed, and say why.
func (b *Place) Close() error {
	b.mu.Lock()
	again := b.closed.Swap(true)
	agents := slices.Collect(maps.Values(b.agents))
	b.mu.Unlock()
	if again {
		return nil
	}
	for _, a := range agents { // a run that is about to begin sees for itself
		a.end(errShutdown)
	}
	b.runs.Wait()
	return b.lock.Close()
}
