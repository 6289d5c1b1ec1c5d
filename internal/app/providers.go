package app

import (
	"log/slog"

	looks "fleet/internal/place/probe"
	"fleet/internal/service"
	"fleet/internal/toolset/providers"
)

// newProviders returns the providers toolset. It probes this machine and its network unless a test replaces them.
func newProviders(cfg Config, o Options, core *service.Service, log *slog.Logger) (*providers.Service, error) {
	c := providers.Config{Settings: cfg.Providers, Logger: log}
	if o.Providers != nil {
		o.Providers(&c)
	}
	outside := o.Outside
	if outside == nil {
		outside = looks.New(looks.Config{})
	}
	return providers.New(core, outside, c)
}
