package app

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"

	"fleet/internal/fleet"
	"fleet/internal/fleet/subagents"
)

// agentsDir is where agents are defined when the configuration does not say: in the directory where the server runs, else
// beside the user's configuration.
const agentsDir = "agents"

// claudeAgentsDir is where Claude Code keeps the agent files of a project. Subagents are defined there when there is no
// agentsDir.
const claudeAgentsDir = ".claude/agents"

// newSubagents returns the toolset of subagents.
func newSubagents(cfg Config, o Options, core *fleet.Service, store fleet.Store, log *slog.Logger) *subagents.Service {
	c := subagents.Config{Settings: cfg.Subagents, Logger: log}
	if c.Dir == "" {
		c.Dir = filepath.Join(xdg.ConfigHome, "fleet", agentsDir)
		for _, dir := range []string{agentsDir, claudeAgentsDir} {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				c.Dir = dir
				break
			}
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
