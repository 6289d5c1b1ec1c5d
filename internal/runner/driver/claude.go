package driver

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"fleet/internal/runner/claude"
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
		prompt = changedInstructions(j)
	}
	out := Command{
		SplitStderr: true, ReadsMessages: true, ConfirmsMessages: true, AgentProgram: c.Program(), Env: maps.Clone(claudeVariables),
		Format: Format{Kind: "claude", Session: j.Session, InstructionsHash: instructionsHash, Tested: claudeTested},
	}
	job := claude.Job{Trust: j.Role.Trust, ID: j.RunDir, System: system, ReplacesSystemPrompt: j.Role.ReplacesSystemPrompt, Prompt: prompt, Images: imageAttachments(j), MessagesFD: shim.MessagesFD}
	argv := append(slices.Clone(c.argv), "-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json",
		"--replay-user-messages", "--include-partial-messages", "--include-hook-events", "--forward-subagent-text")
	servers := map[string]any{}
	if len(j.Ask) > 0 {
		job.RunDir = j.RunDir
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
		job.ReportsRequests, out.ReportsRequests = true, true
	}
	job.Argv = argv
	err = out.setClientJob(j, job)
	return out, err
}

// ReportServer is the name of the MCP server with which an agent reports to Fleet.
const ReportServer = "fleet"

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
