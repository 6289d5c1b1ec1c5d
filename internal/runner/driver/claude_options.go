package driver

import (
	"strconv"
	"strings"
)

// claudeOptions returns the options of Claude Code that the job sets. It adds the job's MCP servers to servers. If there are servers
// or the role is sealed, it adds a file with the servers to out.
func claudeOptions(j Job, servers map[string]any, out *Command) []string {
	const mcpFile = "mcp.json"
	// The project's settings are in the agent's directory, where the agent can change them. Claude Code ignores them if the role is
	// sealed, because they could lift the role's restrictions.
	settingSources := "project"
	if j.Role.Sealed {
		settingSources = ""
	}
	argv := []string{"--setting-sources", settingSources}
	addFlag := func(name, value string) {
		if value != "" {
			argv = append(argv, name, value)
		}
	}
	addFlag("--model", j.Role.Model)
	addFlag("--effort", j.Role.Effort)
	if n := j.Role.MaxTurns; n > 0 {
		addFlag("--max-turns", strconv.Itoa(n))
	}
	if usd := j.Role.MaxCostUSD; usd > 0 {
		addFlag("--max-budget-usd", strconv.FormatFloat(usd, 'f', -1, 64))
	}
	addFlag("--json-schema", string(j.Options.OutputSchema))
	addFlag("--add-dir", attachmentsDir(j)) // otherwise reading them needs a permission
	// Each list is one argument. If a list had several arguments, Claude Code would also read the arguments after the
	// list as a part of it.
	if j.Role.Tools != nil {
		argv = append(argv, "--tools", strings.Join(j.Role.Tools, ","))
	}
	addFlag("--allowedTools", strings.Join(allowedTools(j), ","))
	addFlag("--disallowedTools", strings.Join(denyRules(j.Role), ","))
	if p := j.Role.Permissions; p != nil && len(p.Ask) > 0 { // rules for calls that people decide about
		addFlag("--settings", string(encodeJSON(map[string]any{"permissions": map[string]any{"ask": p.Ask}})))
	}
	addFlag("--permission-mode", j.Role.PermissionMode)
	for name, s := range mcpServersOf(j) {
		servers[name] = s
	}
	if len(servers) > 0 || j.Role.Sealed {
		config := encodeJSON(map[string]any{"mcpServers": servers})
		// Headers and variables may be secrets, so the file is removed at the end of the run.
		out.Files = append(out.Files, File{Name: mcpFile, Data: string(config), Secret: true})
		argv = append(argv, "--mcp-config", j.path(mcpFile), "--strict-mcp-config")
	}
	return argv
}

// claudeVariables are set in the environment of every Claude Code process. The map must not be changed.
var claudeVariables = map[string]string{
	"DISABLE_AUTOUPDATER":             "1",    // the operator installs versions
	"CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "3000", // a server of the agent that starts slowly must not delay the first request; its tools come later
}
