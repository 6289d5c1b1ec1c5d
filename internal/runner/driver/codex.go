package driver

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
)

// codexTestedVersion is the version of Codex that the driver was tested with.
const codexTestedVersion = "0.171.0"

// codex runs Codex in headless mode, as `codex exec --json`. The tasks of an agent share one conversation, which each
// run resumes.
//
// In this mode Codex does not ask for permissions. Its own sandbox restricts its commands, but does not work inside
// another sandbox. So Codex runs without its own sandbox where Fleet confines the program.
type codex struct{ argv []string }

func (c codex) Program() string { return c.argv[0] }

// Modes implements ModesDriver.
func (c codex) Modes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(codexModes)), func(m string) bool { return m == "" })
}

func (c codex) Keys() []string { return []string{"OPENAI_*", "CODEX_*", "AZURE_OPENAI_*"} }

// Sandboxes of Codex.
const (
	codexReadOnly       = "read-only"
	codexWorkspaceWrite = "workspace-write"
	codexFullAccess     = "danger-full-access"
)

// codexModes maps each permission mode of a role to a sandbox of Codex.
var codexModes = map[string]string{
	"": codexWorkspaceWrite, acp.AcceptEdits: codexWorkspaceWrite, "plan": codexReadOnly, "bypassPermissions": codexFullAccess,
	codexReadOnly: codexReadOnly, codexWorkspaceWrite: codexWorkspaceWrite, codexFullAccess: codexFullAccess,
}

func (c codex) Command(j Job) (Command, error) {
	const stdinFile, schemaFile = "stdin", "schema.json"
	previous, instructionsHash := parseConversation(j.Session), fingerprint(standingInstructions(j))
	out := Command{
		SplitStderr: true, StdinFile: stdinFile, Env: map[string]string{},
		Format: Format{Kind: "codex", Session: j.Session, InstructionsHash: instructionsHash, Model: j.Role.Model, TestedVersion: codexTestedVersion},
	}
	options, err := codexOptions(j, &out)
	if err != nil {
		return Command{}, err
	}
	argv := append(slices.Clone(c.argv), "exec", "--json", "--skip-git-repo-check")
	if schema := j.Options.OutputSchema; len(schema) > 0 {
		argv = append(argv, "--output-schema", j.path(schemaFile))
		out.Files = append(out.Files, File{Name: schemaFile, Data: string(schema)})
		out.Format.FindsOutput = true
	}
	if j.OneTask {
		argv, out.Format.NotStored = append(argv, "--ephemeral"), true
	}
	argv = append(argv, options...)
	prompt := firstPrompt(j, fullInstructions(j))
	if previous.id != "" {
		argv = append(argv, "resume", previous.id)
		if previous.instructionsHash == instructionsHash {
			prompt = j.Prompt
		} else {
			prompt = changedInstructions(j)
		}
	}
	out.Argv = append(argv, "-") // the prompt is read from stdin, where its length is not limited
	out.Files = append(out.Files, File{Name: stdinFile, Data: prompt})
	return out, checkArguments(out.Argv, "shorten the role's options")
}

// codexOptions returns the options of Codex that the job sets. It adds the files and variables that its MCP servers need to out.
func codexOptions(j Job, out *Command) ([]string, error) {
	mode, ok := codexModes[j.Role.PermissionMode]
	if !ok {
		return nil, fleet.InvalidField("role",
			"the driver \"codex\" has no permission_mode %q: use read-only, workspace-write or danger-full-access", j.Role.PermissionMode)
	}
	if j.Confined {
		if mode == codexReadOnly {
			return nil, fleet.InvalidField("role",
				"Codex cannot be restricted to reading where Fleet confines it, because its own sandbox does not work inside another: choose another "+
					"permission_mode than %q for the role %q, or sandbox: none for the project", j.Role.PermissionMode, j.Role.Name)
		}
		mode = codexFullAccess
	}
	if j.Role.Tools != nil || len(j.Role.DisallowedTools) > 0 {
		return nil, fleet.InvalidField("role",
			"the driver \"codex\" cannot restrict the available tools: leave tools and disallowed_tools out of the role %q, and choose its permission_mode", j.Role.Name)
	}
	argv := []string{"--sandbox", mode}
	if j.Role.Model != "" {
		argv = append(argv, "--model", j.Role.Model)
	}
	if j.Role.Effort != "" {
		argv = append(argv, "-c", "model_reasoning_effort="+string(encodeJSON(j.Role.Effort)))
	}
	servers, err := codexServers(j, out)
	for _, s := range servers {
		argv = append(argv, "-c", s)
	}
	return argv, err
}

// codexNamePattern matches the names of MCP servers and tools that can be a part of a setting's name.
var codexNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// codexServers returns the settings for the MCP servers of the run. Arguments must not contain secrets. So a shell reads a
// server's variables from a file in out before it executes the server, and out's environment contains the headers.
func codexServers(j Job, out *Command) (settings []string, err error) {
	refuse := func(format string, args ...any) ([]string, error) {
		return nil, fleet.InvalidField("role", format, args...)
	}
	servers := mcpServersOf(j)
	if p := j.Role.Permissions; p != nil && len(p.Allow)+len(p.Deny)+len(p.Ask) > 0 {
		return refuse("the driver \"codex\" never asks for permissions: leave allow, deny and ask out of the permissions of the role %q; "+
			"permissions: {} lets it ask questions", j.Role.Name)
	}
	if len(j.AskCommand) > 0 {
		servers[AskServer] = askServerConfig(j)
		settings = append(settings, fmt.Sprintf("mcp_servers.%s.tool_timeout_sec=%d", AskServer, int((j.Role.Permissions.QuestionTimeout()+time.Minute).Seconds())))
	}
	for _, rule := range j.Role.AllowedTools {
		server, ok := strings.CutPrefix(rule, "mcp__")
		server, _, _ = strings.Cut(server, "__")
		if _, known := servers[server]; !ok || !known {
			return refuse("the driver \"codex\" can allow only tools of the role's MCP servers: leave %q out of allowed_tools, and choose a permission_mode", rule)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s, key := servers[name], "mcp_servers."+name+"."
		set := func(setting string, value any) {
			settings = append(settings, key+setting+"="+string(encodeJSON(value))) // such JSON is also valid TOML
		}
		if !codexNamePattern.MatchString(name) {
			return refuse("the driver \"codex\" cannot have an MCP server %q: use letters, digits, - and _ in its name", name)
		}
		switch {
		case s.Type == "sse":
			return refuse("the driver \"codex\" does not support MCP servers over SSE, such as %q: use a server of the type http or stdio", name)
		case s.URL != "":
			set("url", s.URL)
			var headers []string
			for _, h := range slices.Sorted(maps.Keys(s.Headers)) {
				variable := fmt.Sprintf("FLEET_MCP_HEADER_%d", len(out.Env)+1)
				out.Env[variable] = s.Headers[h]
				headers = append(headers, string(encodeJSON(h))+"="+string(encodeJSON(variable)))
			}
			if len(headers) > 0 {
				settings = append(settings, key+"env_http_headers={"+strings.Join(headers, ",")+"}")
			}
		case len(s.Env) > 0:
			file := File{Name: "mcp-" + name + ".sh", Secret: true}
			for _, v := range slices.Sorted(maps.Keys(s.Env)) {
				file.Data += "export " + v + "='" + strings.ReplaceAll(s.Env[v], "'", `'\''`) + "'\n"
			}
			out.Files = append(out.Files, file)
			set("command", "/bin/sh")
			set("args", append([]string{"-c", `. "$0"; exec "$@"`, j.path(file.Name), s.Command}, s.Args...))
		default:
			set("command", s.Command)
			set("args", append([]string{}, s.Args...))
		}
		for _, rule := range allowedTools(j) {
			switch tool, isTool := strings.CutPrefix(rule, "mcp__"+name+"__"); {
			case rule == "mcp__"+name:
				set("default_tools_approval_mode", "approve")
			case isTool && !codexNamePattern.MatchString(tool):
				return refuse("the driver \"codex\" cannot allow %q: name one tool, or all as \"mcp__%s\"", rule, name)
			case isTool:
				set("tools."+tool+".approval_mode", "approve")
			}
		}
	}
	return settings, nil
}
