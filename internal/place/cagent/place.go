//go:build cgo

package cagent

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// Place implements fleet.Place for agents that are models.
type Place struct {
	*engine
	host *runner.Host

	mu     sync.Mutex
	agents map[string]*member // existing agents, by uid
}

// member is an existing agent.
type member struct {
	home home
	rec  *record

	mu      sync.Mutex
	stopped bool
	gone    bool
}

// New returns a Place with the agents in the directory, which no other process may use. It starts nothing.
func New(c Config) (*Place, error) {
	e, err := newEngine(c)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "agents"), 0o700); err != nil {
		return nil, err
	}
	if err := e.config.resolve(); err != nil {
		return nil, err
	}
	b := &Place{engine: e, agents: map[string]*member{}}
	if err := b.load(); err != nil {
		return nil, err
	}
	b.host = runner.New(runner.Config{
		Program: c.Program, MaxOutput: 2 * e.config.MaxOutput, StopGrace: c.StopGrace, Logger: e.config.Logger, // twice the limit at which a run ends itself
	})
	return b, nil
}

// load reads the agents. It removes directories that an interrupted creation or deletion has left.
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
		x := &member{home: h, rec: &rec, stopped: h.exists("stopped")}
		if err := x.createDirs(); err != nil {
			return err
		}
		b.agents[rec.UID] = x
	}
	return nil
}

// agent returns the agent with the uid, or nil if it does not exist.
func (b *Place) agent(uid string) *member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents[uid]
}

// Traits implements fleet.Place.
func (b *Place) Traits() fleet.Traits {
	return fleet.Traits{Name: cmp.Or(b.config.Name, "cagent"), Drivers: Drivers()}
}

// Projects implements fleet.Place. It returns the definitions in the agents directory.
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

// Roles implements fleet.Place. The roles of a project are the agents of its definition.
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

// project returns the document of a project, and the parsed definition. It returns PROJECT_NOT_FOUND if there is no
// such document, or if it cannot be used.
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
		return nil, false, hostError("cannot read the agent's log", err)
	}
	return lines, more, nil
}

// members returns the existing agents.
func (b *Place) members() []*member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.agents))
}

// Close implements fleet.Place. Active runs continue.
func (b *Place) Close() error {
	b.host.Close()
	return nil
}
