package app

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"

	"fleet/internal/fleet"
	"fleet/internal/fleet/subagents"
)

// agentsDir is where subagents are defined when the configuration does not say: in the directory where the server runs,
// else in the one of the user's configuration.
const agentsDir = "agents"

// newSubagents returns the toolset of subagents.
func newSubagents(cfg Config, o Options, core *fleet.Service, store fleet.Store, log *slog.Logger) *subagents.Service {
	c := subagents.Config{Settings: cfg.Subagents, Logger: log}
	if c.Dir == "" {
		c.Dir = filepath.Join(xdg.ConfigHome, "fleet", agentsDir)
		if info, err := os.Stat(agentsDir); err == nil && info.IsDir() {
			c.Dir = agentsDir
		}
	}
	if dir, err := filepath.Abs(c.Dir); err == nil {
		c.Dir = dir
	}
	if o.Subagents != nil {
		o.Subagents(&c)
	}
	return subagents.New(core, store, c)
}
