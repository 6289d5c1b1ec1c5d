package driver

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fleet/internal/runner/ask"
)

// claudeTested is the version of Claude Code with which the driver was tested.
const claudeTested = "2.1.329"

// claude runs Claude Code in headless mode. The tasks of an agent share one conversation, which each run resumes.
type claude struct{ argv []string }

func newClaude(o Options) claude {
	if len(o.Command) > 0 {
		return claude{o.Command}
	}
	return claude{[]string{"claude"}}
}

func (c claude) Program() string { return c.argv[0] }

func (c claude) Keys() []string {
	return []string{"ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"}
}

func (c claude) Command(j Job) (Command, error) {
	const mcpFile, stdinFile = "mcp.json", "stdin"
	prompt, system := j.Prompt, standingInstructions(j)
	prompt = firstPrompt(j, prompt)
	known, told := parseConversation(j.Session), fingerprint(system)
	out := Command{SplitStderr: true, Format: Format{Kind: "claude", Resumed: j.Session, Told: told, Results: j.Role.Sealed, Tested: claudeTested}}
	argv := append([]string{}, c.argv...)
	argv = append(argv, "-p", "--verbose", "--output-format", "stream-json", "--setting-sources", sources(j.Role))
	flag := func(name, value string) {
		if value != "" {
			argv = append(argv, name, value)
		}
	}
	switch {
	case len(system) > MaxArgument:
		prompt, system = firstPrompt(j, fullInstructions(j)), ""
	case known.id != "" && known.told != told:
		// Claude Code keeps the system prompt with which a conversation started, so the prompt has the new
		// instructions.
		prompt = "What you were told about yourself has changed. From now on this holds instead:\n\n" + fullInstructions(j)
	}
	if j.Role.Alone {
		flag("--system-prompt", system)
	} else {
		flag("--append-system-prompt", system)
	}
	flag("--model", j.Role.Model)
	// Each list is one argument. If a list had several arguments, Claude Code would also read the arguments after the
	// list as a part of it.
	if j.Role.Tools != nil {
		argv = append(argv, "--tools", strings.Join(j.Role.Tools, ","))
	}
	flag("--allowedTools", strings.Join(allowed(j), ","))
	flag("--disallowedTools", strings.Join(j.Role.DisallowedTools, ","))
	flag("--permission-mode", j.Role.PermissionMode)
	servers := serversOf(j)
	if len(j.Ask) > 0 {
		servers[AskServer] = askServer(j, ask.ToolApprove)
		argv = append(argv, "--permission-prompt-tool", "mcp__"+AskServer+"__"+ask.ToolApprove)
		// The supervisor ends the wait for people, so Claude Code's own timeout for the tool must be longer.
		out.Env = map[string]string{"MCP_TOOL_TIMEOUT": strconv.FormatInt((j.Role.Permissions.Wait() + time.Minute).Milliseconds(), 10)}
	}
	if len(servers) > 0 || j.Role.Sealed {
		b, err := json.Marshal(map[string]any{"mcpServers": servers})
		if err != nil {
			return Command{}, err
		}
		// Headers and variables may be secrets, so the file is removed at the end of the run.
		out.Files = append(out.Files, File{Name: mcpFile, Data: string(b), Secret: true})
		argv = append(argv, "--mcp-config", j.path(mcpFile), "--strict-mcp-config")
	}
	flag("--resume", known.id)
	if j.OneTask {
		argv = append(argv, "--no-session-persistence")
	}
	if j.Report != nil {
		// Only the shim reads the partial messages. They show when a request to the model is active.
		argv, out.Requests = append(argv, "--include-partial-messages"), true
	}
	if len(prompt) > MaxArgument {
		out.Files = append(out.Files, File{Name: stdinFile, Data: prompt})
		out.StdinFile = stdinFile
	} else {
		argv = append(argv, "--", prompt)
	}
	out.Argv = argv
	return out, checkArguments(argv, "shorten the role's options")
}

// ReportServer is the name of the MCP server with which an agent reports to Fleet.
const ReportServer = "fleet"

// sources returns which settings files Claude Code reads. The project's settings are in the agent's directory, where
// the agent can change them. An agent with a sealed role gets none, because they could lift the role's restrictions.
func sources(r Role) string {
	if r.Sealed {
		return ""
	}
	return "project"
}

// serversOf returns the MCP servers of the run.
func serversOf(j Job) map[string]MCPServer {
	servers := map[string]MCPServer{}
	maps.Copy(servers, j.Role.MCPServers)
	if j.Report != nil {
		servers[ReportServer] = MCPServer{
			Type: "http", URL: j.Report.URL, Headers: map[string]string{"Authorization": "Bearer " + j.Report.Token},
		}
	}
	return servers
}

// allowed returns the tools that need no permission.
func allowed(j Job) []string {
	tools := slices.Clone(j.Role.AllowedTools)
	if j.Report != nil {
		tools = append(tools, "mcp__"+ReportServer)
	}
	if len(j.Ask) > 0 {
		tools = append(tools, "mcp__"+AskServer+"__"+ask.ToolAskUser)
	}
	return tools
}

// conversation is the stored form of a session of an agent's program. id is the session's id. told is a fingerprint of
// the instructions that the program has received in this session. Some drivers append usage or cost to told.
type conversation struct{ id, told string }

func parseConversation(s string) conversation {
	id, told, _ := strings.Cut(s, " ")
	return conversation{id, told}
}

func (c conversation) String() string {
	if c.id == "" {
		return ""
	}
	return strings.TrimSpace(c.id + " " + c.told)
}

// fingerprint returns a short hash of the text.
func fingerprint(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}
