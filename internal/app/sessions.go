package app

import (
	"log/slog"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/toolset/sessions"
)

// newSessions returns the toolset of sessions.
func newSessions(cfg Config, o Options, core *service.Service, catalog fleet.Catalog, log *slog.Logger) *sessions.Service {
	c := sessions.Config{
		Settings: cfg.Sessions, AnyDirectory: cfg.Auth.None() && len(cfg.Sessions.Directories) == 0, PrivateDir: cfg.Data, Now: core.Now, Logger: log,
	}
	if o.Sessions != nil {
		o.Sessions(&c)
	}
	return sessions.New(core, catalog, c)
}
