package app

import (
	"log/slog"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/place/probe"
	"fleet/internal/service"
	"fleet/internal/toolset/providers"
)

// drivers returns the drivers of the places that every server has.
func drivers() []fleet.Driver { return append(local.Drivers(), local.ModelDrivers()...) }

// newProviders returns the providers toolset. It probes providers on this machine and its network,
// unless Options.ProbeEnvironment is set.
func newProviders(cfg Config, o Options, core *service.Service, log *slog.Logger) (*providers.Service, error) {
	c := providers.Config{Settings: cfg.Providers, Drivers: drivers(), Now: core.Now, Logger: log}
	if o.Providers != nil {
		o.Providers(&c)
	}
	environment := o.ProbeEnvironment
	if environment == nil {
		environment = probe.New(probe.Config{})
	}
	return providers.New(core, environment, c)
}
