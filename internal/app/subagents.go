package app

import (
	"log/slog"
	"os"
	"path/filepath"

	"fleet/internal/service"
	"fleet/internal/toolset/subagents"
	"fleet/internal/userdir"
)

// agentsDir is the default directory of agent definitions. Fleet looks for it in the server's working directory, and then in
// the user's configuration directory.
const agentsDir = "agents"

// claudeAgentsDir is where Claude Code keeps a project's agent files. It is the default directory of subagents if the server's working
// directory has it and has no agentsDir.
const claudeAgentsDir = ".claude/agents"

// definitionsDir returns the absolute path of the configured directory. If none is configured, it returns the first
// local directory that exists, else agentsDir in the user's configuration directory.
func definitionsDir(configured string, local ...string) string {
	dir := configured
	if dir == "" {
		dir = filepath.Join(userdir.Config(), agentsDir) // without a configuration directory, a path relative to the working directory
		for _, l := range local {
			if info, err := os.Stat(l); err == nil && info.IsDir() {
				dir = l
				break
			}
		}
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// newSubagents returns the toolset of subagents.
func newSubagents(cfg Config, o Options, core *service.Service, log *slog.Logger) *subagents.Service {
	c := subagents.Config{Settings: cfg.Subagents, Now: core.Now, Logger: log}
	c.Dir = definitionsDir(c.Dir, agentsDir, claudeAgentsDir)
	if o.Subagents != nil {
		o.Subagents(&c)
	}
	return subagents.New(core, c)
}
