package app

import (
	"context"
	"log/slog"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/fleet/sessions"
	"fleet/internal/place/cagent"
)

// Cagent is the part of the configuration about agents that are models in this process.
type Cagent struct {
	// Model is what agents think with whose definitions name none, as provider/model. When it is empty, it is one of the
	// first provider whose key is in the environment.
	Model string `yaml:"model"`
	// Approve are the types of toolsets whose tools agents may use though their definitions do not allow them.
	Approve []string `yaml:"approve"`
	// Programs lets definitions run programs on this machine (shell, script, lsp, MCP servers that are programs, hooks)
	// though the server has tokens. Such a program can read and write all that the server's user can, also what belongs
	// to other principals. A server without tokens needs no permission.
	Programs bool `yaml:"programs"`
	// Prices of models, by provider/model, in US dollars for a million tokens.
	Prices map[string]cagent.Price `yaml:"prices"`
}

// noPrograms says that definitions of agents cannot run programs on this machine: others share it.
func (c Config) noPrograms() bool { return c.Auth != AuthNone && !c.Cagent.Programs }

// newCatalog returns the definitions of agents in files and artifacts.
func newCatalog(cfg Config) *cagent.Catalog {
	s := cfg.Sessions
	c := cagent.CatalogConfig{NoPrograms: cfg.noPrograms(), AgentsDir: definitionsDir(s.AgentsDir, agentsDir), StoreDir: filepath.Join(cfg.Data, "cagent", "store"), PullTimeout: s.Pulled.Timeout}
	c.Login = s.Pulled.Login
	if c.Login == "" && cfg.Auth == AuthNone { // the logins are the only user's own
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

// newCagent returns the backend of agents that are models in this process. A second server on the same data has none, and
// says so.
func newCagent(cfg Config, o Options, catalog *cagent.Catalog, places cagent.Places, log *slog.Logger) (fleet.Place, error) {
	c := cagent.Config{
		Places: places, NoPrograms: cfg.noPrograms(), Dir: filepath.Join(cfg.Data, "cagent"), Catalog: catalog, Model: cfg.Cagent.Model, Approve: cfg.Cagent.Approve, ToolEnv: cfg.Providers.ToolEnv,
		Prices: cfg.Cagent.Prices, Logger: log,
	}
	if o.Cagent != nil {
		o.Cagent(&c)
	}
	b, err := cagent.New(c)
	if fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
		log.WarnContext(context.Background(), "no agents of cagent on this server", slog.Any("error", err))
		return nil, nil
	}
	return b, err
}

// newSessions returns the toolset of sessions.
func newSessions(cfg Config, o Options, core *fleet.Service, store fleet.Store, catalog sessions.Catalog, log *slog.Logger) *sessions.Service {
	c := sessions.Config{
		Settings: cfg.Sessions, AnyDirectory: cfg.Auth == AuthNone && len(cfg.Sessions.Directories) == 0, Private: cfg.Data, Logger: log,
	}
	if o.Sessions != nil {
		o.Sessions(&c)
	}
	return sessions.New(core, store, catalog, c)
}
