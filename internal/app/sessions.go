package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/place/cagent"
	"fleet/internal/service"
	"fleet/internal/toolset/sessions"
)

// Cagent is the section of the configuration for model agents.
type Cagent struct {
	// Model is the model, as provider/model, of agents whose definitions name no model. If it is empty, Fleet uses a
	// model of the first provider whose key is in the environment.
	Model string `yaml:"model"`
	// Approve lists the types of toolsets whose tools agents may use even if their definitions do not permit it.
	Approve []string `yaml:"approve"`
	// Programs allows definitions to run programs on this machine (shell, script, lsp, MCP servers that are programs,
	// hooks) on a server with tokens. A server without tokens always allows it.
	Programs bool `yaml:"programs"`
	// Prices has prices of models, by provider/model, in US dollars per million tokens.
	Prices map[string]fleet.Price `yaml:"prices"`
}

// noPrograms reports whether definitions must not run programs, because other principals share this server.
func (c Config) noPrograms() bool { return !c.Auth.None() && !c.Cagent.Programs }

// newCatalog returns the catalog of agent definitions in files and in pulled artifacts.
func newCatalog(cfg Config) *cagent.Catalog {
	s := cfg.Sessions
	c := cagent.CatalogConfig{NoPrograms: cfg.noPrograms(), AgentsDir: definitionsDir(s.AgentsDir, agentsDir), StoreDir: filepath.Join(cfg.Data, "cagent", "store"), PullTimeout: s.Pulled.Timeout}
	c.Login = s.Pulled.Login
	if c.Login == "" && cfg.Auth.None() { // the logins belong to the only user
		c.Login = cagent.LoginDocker
	}
	c.Approve = cfg.Cagent.Approve
	c.Policy.ModelHosts = s.Pulled.ModelHosts
	if len(s.Pulled.Toolsets) > 0 {
		c.Policy.Toolsets = s.Pulled.Toolsets
	}
	if len(s.Pulled.Registries) > 0 {
		c.Registries = s.Pulled.Registries
	}
	return cagent.NewCatalog(c)
}

// newCagent returns the place of model agents. It returns BACKEND_UNAVAILABLE in a build without cgo.
func (p *places) newCagent() (fleet.Place, error) {
	here, err := p.get("local")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find the path of this program, which executes model runs: %w", err)
	}
	supervisor, err := p.cfg.supervisor(context.Background())
	if err != nil {
		return nil, fmt.Errorf("cannot find the path of the program that supervises runs: %w", err)
	}
	copies, _ := here.(cagent.Places)
	cfg := p.cfg
	c := cagent.Config{
		Name:    fleet.PlaceOn("cagent", cfg.Replica),
		Program: supervisor, RunCommand: []string{self, modelCommand}, StopGrace: cfg.StopGrace,
		Sandbox: cfg.Local.Sandbox, Read: cfg.Local.Read, Write: cfg.Local.Write, Hide: []string{cfg.Data},
		Places: copies, NoPrograms: cfg.noPrograms(), Dir: filepath.Join(cfg.Data, "cagent"), Catalog: p.catalog, Model: cfg.Cagent.Model, Approve: cfg.Cagent.Approve, ToolEnv: cfg.Providers.ToolEnv,
		Prices: p.prices, Now: p.store.Now, Logger: p.log,
	}
	if p.options.Cagent != nil {
		p.options.Cagent(&c)
	}
	return cagent.New(c)
}

// newSessions returns the toolset of sessions.
func newSessions(cfg Config, o Options, core *service.Service, catalog fleet.Catalog, log *slog.Logger) *sessions.Service {
	c := sessions.Config{
		Settings: cfg.Sessions, AnyDirectory: cfg.Auth.None() && len(cfg.Sessions.Directories) == 0, Private: cfg.Data, Now: core.Now, Logger: log,
	}
	if o.Sessions != nil {
		o.Sessions(&c)
	}
	return sessions.New(core, catalog, c)
}
