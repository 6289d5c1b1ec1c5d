package driver

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/runner/question"
)

// claudeOptions returns the options of Claude Code that the job sets. It adds the job's MCP servers to the given ones, and a
// file with all of them to out.
func claudeOptions(j Job, servers map[string]any, out *Command) ([]string, error) {
	const mcpFile = "mcp.json"
	argv := []string{"--setting-sources", settingSources(j.Role)}
	flag := func(name, value string) {
		if value != "" {
			argv = append(argv, name, value)
		}
	}
	flag("--model", j.Role.Model)
	flag("--effort", j.Role.Effort)
	if n := j.Role.MaxTurns; n > 0 {
		flag("--max-turns", strconv.Itoa(n))
	}
	if usd := j.Role.MaxCostUSD; usd > 0 {
		flag("--max-budget-usd", strconv.FormatFloat(usd, 'f', -1, 64))
	}
	flag("--json-schema", string(j.Options.OutputSchema))
	flag("--add-dir", attachmentsDir(j)) // otherwise reading them needs a permission
	// Each list is one argument. If a list had several arguments, Claude Code would also read the arguments after the
	// list as a part of it.
	if j.Role.Tools != nil {
		argv = append(argv, "--tools", strings.Join(j.Role.Tools, ","))
	}
	flag("--allowedTools", strings.Join(allowedTools(j), ","))
	flag("--disallowedTools", strings.Join(denyRules(j.Role), ","))
	if p := j.Role.Permissions; p != nil {
		flag("--settings", askSettings(p.Ask))
	}
	flag("--permission-mode", j.Role.PermissionMode)
	for name, s := range mcpServersOf(j) {
		servers[name] = s
	}
	if len(servers) > 0 || j.Role.Sealed {
		b, err := json.Marshal(map[string]any{"mcpServers": servers})
		if err != nil {
			return nil, err
		}
		// Headers and variables may be secrets, so the file is removed at the end of the run.
		out.Files = append(out.Files, File{Name: mcpFile, Data: string(b), Secret: true})
		argv = append(argv, "--mcp-config", j.path(mcpFile), "--strict-mcp-config")
	}
	return argv, nil
}

// denyRules returns the rules for calls that the program must deny by itself. The program does not ask about calls that the
// settings of its directory allow, and the agent can write these settings.
func denyRules(r Role) []string {
	if r.Permissions == nil {
		return r.DisallowedTools
	}
	return slices.Concat(r.DisallowedTools, r.Permissions.Deny)
}

// askSettings returns settings of Claude Code with rules for calls that people decide about, or "" if there are none.
func askSettings(rules []string) string {
	if len(rules) == 0 {
		return ""
	}
	return string(encodeJSON(map[string]any{"permissions": map[string]any{"ask": rules}}))
}

// claudeVariables are variables of Claude Code's environment.
var claudeVariables = map[string]string{
	"DISABLE_AUTOUPDATER":             "1",    // the operator installs versions
	"CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "3000", // a server of the agent that starts slowly must not delay the first request; its tools come later
}

// settingSources returns which settings files Claude Code reads. The project's settings are in the agent's directory, where
// the agent can change them. An agent with a sealed role gets none, because they could lift the role's restrictions.
func settingSources(r Role) string {
	if r.Sealed {
		return ""
	}
	return "project"
}

// allowedTools returns the tools that need no permission.
func allowedTools(j Job) []string {
	tools := slices.Clone(j.Role.AllowedTools)
	if j.Report != nil {
		tools = append(tools, "mcp__"+ReportServer)
	}
	if len(j.Ask) > 0 {
		tools = append(tools, "mcp__"+AskServer+"__"+question.ToolAskUser)
	}
	return tools
}
