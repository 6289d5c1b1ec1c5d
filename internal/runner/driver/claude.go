package driver

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"fleet/internal/runner/claude"
	"fleet/internal/runner/shim"
)

// claudeTestedVersion is the version of Claude Code with which the driver was tested.
const claudeTestedVersion = "2.1.332"

// claudeCode runs Claude Code in headless mode. A process of the run talks to it (see package claude). The tasks of an agent share
// one conversation, which each run resumes.
type claudeCode struct{ argv []string }

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
		Format: Format{Kind: "claude", Session: j.Session, InstructionsHash: instructionsHash, TestedVersion: claudeTestedVersion},
	}
	job := claude.Job{Trust: j.Role.Trust, ID: j.RunDir, System: system, ReplacesSystemPrompt: j.Role.ReplacesSystemPrompt, Prompt: prompt, Images: imageAttachments(j), MessagesFD: shim.MessagesFD}
	argv := append(slices.Clone(c.argv), "-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json",
		"--replay-user-messages", "--include-partial-messages", "--include-hook-events", "--forward-subagent-text")
	servers := map[string]any{}
	if len(j.AskCommand) > 0 {
		job.RunDir = j.RunDir
		argv = append(argv, "--permission-prompt-tool", "stdio")
		servers[AskServer] = map[string]string{"type": "sdk", "name": AskServer} // the client serves it
		// The supervisor ends the wait for people, so Claude Code's own timeout for the tool must be longer.
		out.Env["MCP_TOOL_TIMEOUT"] = strconv.FormatInt((j.Role.Permissions.QuestionTimeout() + time.Minute).Milliseconds(), 10)
	}
	argv = append(argv, claudeOptions(j, servers, &out)...)
	if previous.id != "" {
		argv = append(argv, "--resume", previous.id)
	}
	if j.OneTask {
		argv, out.Format.NotStored = append(argv, "--no-session-persistence"), true
	}
	if j.Report != nil {
		job.ReportsRequests, out.ReportsRequests = true, true
	}
	job.Argv = argv
	return out, out.setClientJob(j, job)
}

// setClientJob makes the client for Claude Code execute clientJob in the run of j.
func (c *Command) setClientJob(j Job, clientJob claude.Job) error {
	const file = "claude.json"
	c.Files = append(c.Files, File{Name: file, Data: string(encodeJSON(clientJob))})
	c.Argv = append(slices.Clone(j.ClientCommand), ProtocolClaude, j.path(file))
	return checkArguments(clientJob.Argv, "shorten the role's options")
}
