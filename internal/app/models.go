package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/model/run"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
)

// Cagent is the section of the configuration for model agents.
type Cagent struct {
	// Model is the model, as provider/model, of agents whose definitions name no model. If it is empty, Fleet uses a
	// model of the first provider whose key is in the environment.
	Model string `yaml:"model"`
	// Approve lists the types of toolsets whose tools agents may use even if their definitions do not permit it.
	Approve []string `yaml:"approve"`
	// Programs allows definitions to run programs on this machine (shell, script, lsp, MCP servers that are programs,
	// hooks), even if auth is not none. With auth none, it is always allowed.
	Programs bool `yaml:"programs"`
	// Prices has prices of models, by provider/model, in US dollars per million tokens.
	Prices map[string]fleet.Price `yaml:"prices"`
}

// noPrograms reports whether definitions must not run programs, because other principals share this server.
func (c Config) noPrograms() bool { return !c.Auth.None() && !c.Cagent.Programs }

// newCatalog returns the catalog of agent definitions in files and in pulled artifacts.
func newCatalog(cfg Config) *definition.Catalog {
	s := cfg.Sessions
	c := definition.CatalogConfig{NoPrograms: cfg.noPrograms(), AgentsDir: definitionsDir(s.AgentsDir, agentsDir), StoreDir: filepath.Join(cfg.Data, "pulled"), PullTimeout: s.Pulled.Timeout}
	c.Login = s.Pulled.Login
	if c.Login == "" && cfg.Auth.None() { // the logins belong to the only user
		c.Login = definition.LoginDocker
	}
	c.ApprovedTypes = cfg.Cagent.Approve
	c.Policy.ModelHosts = s.Pulled.ModelHosts
	if len(s.Pulled.Toolsets) > 0 {
		c.Policy.Toolsets = s.Pulled.Toolsets
	}
	if len(s.Pulled.Registries) > 0 {
		c.Registries = s.Pulled.Registries
	}
	return definition.NewCatalog(c)
}

// newModels returns the place of agents on models. It returns BACKEND_UNAVAILABLE in a build without cgo.
func (p *places) newModels() (fleet.Place, error) {
	if run.MissingFeatures != "" {
		return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "this program lacks %s: build it with CGO_ENABLED=1", run.MissingFeatures)
	}
	place, err := p.getOrCreate("local")
	if err != nil {
		return nil, err
	}
	localPlace, ok := place.(*local.Place)
	if !ok {
		return nil, errors.New("agents on models run on this machine, and another place has the name local")
	}
	return localPlace.ModelPlace(), nil
}

// modelsConfig returns the configuration of agents on models.
func (p *places) modelsConfig() (local.ModelsConfig, error) {
	self, err := os.Executable()
	if err != nil {
		return local.ModelsConfig{}, fmt.Errorf("cannot find the path of this program, which executes model runs: %w", err)
	}
	cfg := p.cfg
	return local.ModelsConfig{
		Name: fleet.PlaceOn("cagent", cfg.Replica), Command: []string{self, modelCommand}, Catalog: p.catalog, Needs: definition.Needs,
		Settings: driver.ModelSettings{
			Model: cfg.Cagent.Model, ApprovedTypes: cfg.Cagent.Approve, NoPrograms: cfg.noPrograms(), ToolEnv: cfg.Providers.ToolEnv, Prices: p.prices,
		},
	}, nil
}
