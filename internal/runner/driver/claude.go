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

	"fleet/internal/runner/claude"
	"fleet/internal/runner/question"
	"fleet/internal/runner/shim"
)

// claudeTested is the version of Claude Code with which the driver was tested.
const claudeTested = "2.1.332"

// claudeCode runs Claude Code in headless mode. A process of the run talks to it, see package claude. The tasks of an agent share one conversation, which each run resumes.
type claudeCode struct{ argv []string }

func newClaude(o Options) claudeCode {
	if len(o.Command) > 0 {
		return claudeCode{o.Command}
	}
	return claudeCode{[]string{"claude"}}
}

func (c claudeCode) Program() string { return c.argv[0] }

func (c claudeCode) Keys() []string {
	return []string{"ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"}
}

// Modes implements ModesDriver.
func (c claudeCode) Modes() []string {
	return []string{"acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"}
}

func (c claudeCode) Command(j Job) (Command, error) {
	prompt, system := firstPrompt(j, j.Prompt), standingInstructions(j)
	previous, instructionsHash := parseConversation(j.Session), fingerprint(system)
	if previous.id != "" && previous.instructionsHash != instructionsHash {
		// Claude Code keeps the system prompt with which a conversation started, so the prompt has the new
		// instructions.
		prompt = "What you were told about yourself has changed. From now on this holds instead:\n\n" + fullInstructions(j)
	}
	out := Command{
		SplitStderr: true, Messages: true, Mailbox: true, Starts: c.Program(), Env: maps.Clone(claudeVariables),
		Format: Format{Kind: "claude", Resumed: j.Session, InstructionsHash: instructionsHash, Tested: claudeTested},
	}
	job := claude.Job{Trust: j.Role.Trust, ID: j.RunDir, System: system, Alone: j.Role.ReplacesSystemPrompt, Prompt: prompt, Images: imageAttachments(j), Messages: shim.MessagesFD}
	argv := append(slices.Clone(c.argv), "-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json",
		"--replay-user-messages", "--include-partial-messages", "--include-hook-events", "--forward-subagent-text")
	servers := map[string]any{}
	if len(j.Ask) > 0 {
		job.Ask = j.RunDir
		argv = append(argv, "--permission-prompt-tool", "stdio")
		servers[AskServer] = map[string]string{"type": "sdk", "name": AskServer} // the client serves it
		// The supervisor ends the wait for people, so Claude Code's own timeout for the tool must be longer.
		out.Env["MCP_TOOL_TIMEOUT"] = strconv.FormatInt((j.Role.Permissions.QuestionTimeout() + time.Minute).Milliseconds(), 10)
	}
	options, err := claudeOptions(j, servers, &out)
	if err != nil {
		return Command{}, err
	}
	argv = append(argv, options...)
	if previous.id != "" {
		argv = append(argv, "--resume", previous.id)
	}
	if j.OneTask {
		argv = append(argv, "--no-session-persistence")
	}
	if j.Report != nil {
		job.Requests, out.Requests = true, true
	}
	job.Argv = argv
	err = out.setClientJob(j, job)
	return out, err
}

// setClientJob makes the client for Claude Code execute the job.
func (c *Command) setClientJob(j Job, job claude.Job) error {
	const file = "claude.json"
	b, err := json.Marshal(job)
	if err != nil {
		return err
	}
	c.Files = append(c.Files, File{Name: file, Data: string(b)})
	c.Argv = append(slices.Clone(j.Client), ProtocolClaude, j.path(file))
	return checkArguments(job.Argv, "shorten the role's options")
}

// claudeOptions returns the options of Claude Code that the role sets. The MCP servers are those of the job, and the given ones.
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

// denyRules returns the rules for calls that the program must deny by itself. It does not ask about calls that the settings of its directory
// allow, and the agent can write these.
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
	b, _ := json.Marshal(map[string]any{"permissions": map[string]any{"ask": rules}}) // texts can always be encoded
	return string(b)
}

// claudeVariables are variables of Claude Code's environment.
var claudeVariables = map[string]string{
	"DISABLE_AUTOUPDATER":             "1",    // the operator installs versions
	"CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "3000", // a server of the agent that starts slowly must not delay the first request; its tools come later
}

// ReportServer is the name of the MCP server with which an agent reports to Fleet.
const ReportServer = "fleet"

// settingSources returns which settings files Claude Code reads. The project's settings are in the agent's directory, where
// the agent can change them. An agent with a sealed role gets none, because they could lift the role's restrictions.
func settingSources(r Role) string {
	if r.Sealed {
		return ""
	}
	return "project"
}

// mcpServersOf returns the MCP servers of the run.
func mcpServersOf(j Job) map[string]MCPServer {
	servers := map[string]MCPServer{}
	maps.Copy(servers, j.Role.MCPServers)
	if j.Report != nil {
		servers[ReportServer] = MCPServer{
			Type: "http", URL: j.Report.URL, Headers: map[string]string{"Authorization": "Bearer " + j.Report.Token},
		}
	}
	return servers
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

// conversation is the stored form of a session of an agent's program. id is the session's id. told is a fingerprint of
// the instructions that the program has received in this session. Some drivers append usage or cost to told.
type conversation struct{ id, instructionsHash string }

func parseConversation(s string) conversation {
	id, hash, _ := strings.Cut(s, " ")
	return conversation{id, hash}
}

func (c conversation) String() string {
	if c.id == "" {
		return ""
	}
	return strings.TrimSpace(c.id + " " + c.instructionsHash)
}

// fingerprint returns a short hash of the text.
func fingerprint(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}
