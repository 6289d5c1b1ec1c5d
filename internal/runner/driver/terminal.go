package driver

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"fleet/internal/fleet"
	"fleet/internal/runner/claude"
)

// KindTerminal is the kind of the output of a program that a person uses on a terminal.
const KindTerminal = "terminal"

// TerminalDriver is a driver whose program a person can use on a terminal, in the agent's conversation.
type TerminalDriver interface {
	// CheckTerminal returns UNIMPLEMENTED if a person cannot use the program. hasConversation reports whether the agent has a
	// conversation.
	CheckTerminal(hasConversation bool) error

	// TerminalCommand returns how to start the program for a person.
	TerminalCommand(j Job) (Command, error)
}

// CheckTerminal returns UNIMPLEMENTED if nobody can use the program of the driver on a terminal.
func CheckTerminal(d Driver, hasConversation bool) error {
	if t, ok := d.(TerminalDriver); ok {
		return t.CheckTerminal(hasConversation)
	}
	return noTerminalError("the driver " + kindOf(d))
}

// TerminalCommand returns how to start the driver's program for a person.
func TerminalCommand(d Driver, j Job) (Command, error) {
	if j.LostReason != "" { // the next task begins a new conversation, and reports why
		return Command{}, fleet.Errorf(fleet.ReasonUnimplemented, "the agent's conversation cannot be continued, because %s: give the agent a task first", j.LostReason)
	}
	if err := CheckTerminal(d, j.Session != ""); err != nil {
		return Command{}, err
	}
	return d.(TerminalDriver).TerminalCommand(j) //nolint:forcetypeassert // CheckTerminal has checked it
}

func noTerminalError(who string) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "%s has no program that a person can use in the agent's conversation: give the agent a task instead", who)
}

// requireConversation returns UNIMPLEMENTED if the agent has no conversation. The program would begin one on the terminal, and Fleet
// would not learn its id.
func requireConversation(program string, hasConversation bool) error {
	if hasConversation {
		return nil
	}
	return fleet.Errorf(fleet.ReasonUnimplemented, "%s cannot begin the agent's conversation on a terminal: give the agent a task first", program)
}

// CheckTerminal implements TerminalDriver.
func (c claudeCode) CheckTerminal(bool) error { return nil }

// TerminalCommand implements TerminalDriver. The person at the terminal decides about permissions, so no question goes to Fleet.
func (c claudeCode) TerminalCommand(j Job) (Command, error) {
	j.AskCommand, j.Role.RoleOptions = nil, RoleOptions{Effort: j.Role.Effort} // Claude Code has the other limits only for tasks
	system := standingInstructions(j)
	out := Command{
		AgentProgram: c.Program(), Env: claudeVariables,
		Format: Format{Kind: KindTerminal, Session: j.Session, InstructionsHash: fingerprint(system)},
	}
	argv := append(slices.Clone(c.argv), claudeOptions(j, map[string]any{}, &out)...)
	if previous := parseConversation(j.Session); previous.id != "" {
		argv = append(argv, "--resume", previous.id) // Claude Code keeps the system prompt with which the conversation started
	} else {
		out.Format.NewSessionID = uuid.NewString()
		argv = append(argv, "--session-id", out.Format.NewSessionID)
		if system != "" {
			option, file := "--append-system-prompt-file", File{Name: "system.md", Data: system}
			if j.Role.ReplacesSystemPrompt {
				option = "--system-prompt-file"
			}
			out.Files, argv = append(out.Files, file), append(argv, option, j.path(file.Name))
		}
	}
	return out, out.setClientJob(j, claude.Job{Argv: argv, Trust: j.Role.Trust, Terminal: true})
}

// CheckTerminal implements TerminalDriver.
func (c codex) CheckTerminal(hasConversation bool) error {
	return requireConversation("Codex", hasConversation)
}

// TerminalCommand implements TerminalDriver.
func (c codex) TerminalCommand(j Job) (Command, error) {
	j.AskCommand = nil
	out := Command{Env: map[string]string{}, Format: Format{Kind: KindTerminal, Session: j.Session}}
	options, err := codexOptions(j, &out)
	if err != nil {
		return Command{}, err
	}
	out.Argv = slices.Concat(c.argv, options, []string{"resume", parseConversation(j.Session).id})
	return out, checkArguments(out.Argv, "shorten the role's options")
}

// resumeOptions maps the names of programs that use the Agent Client Protocol to the options that continue a session on a terminal.
var resumeOptions = map[string]string{"gemini": "--resume", "opencode": "--session"}

// CheckTerminal implements TerminalDriver.
func (a acpDriver) CheckTerminal(hasConversation bool) error {
	name := filepath.Base(a.Program())
	if resumeOptions[name] == "" {
		return noTerminalError(name)
	}
	return requireConversation(name, hasConversation)
}

// TerminalCommand implements TerminalDriver.
func (a acpDriver) TerminalCommand(j Job) (Command, error) {
	argv := []string{a.Program(), resumeOptions[filepath.Base(a.Program())], parseConversation(j.Session).id}
	return Command{Argv: argv, Env: a.options.Env, Format: Format{Kind: KindTerminal, Session: j.Session}}, nil
}

// CheckTerminal implements TerminalDriver.
func (s shell) CheckTerminal(bool) error { return nil }

// TerminalCommand implements TerminalDriver. It starts the interpreter without a script.
func (s shell) TerminalCommand(Job) (Command, error) {
	return Command{Argv: s.argv[:1], Format: Format{Kind: KindTerminal}}, nil
}

// terminalParser is the parser for a program on a terminal. The output of such a program is not stored.
type terminalParser struct{ format Format }

// Parse implements Parser.
func (p terminalParser) Parse(data []byte, _ bool) (int, []Piece) { return len(data), nil }

// Result implements Parser.
func (p terminalParser) Result(e Exit) Result {
	o := exitOutcome(e, "")
	if e.Signal == "" { // the exit code of a shell is that of its last command, so it says nothing about the task
		o.Status, o.Reason = fleet.TaskCompleted, ""
	}
	o.Summary = "a person used the program on a terminal"
	return Result{Outcome: o, Session: cmp.Or(p.format.Session, conversation{id: p.format.NewSessionID, instructionsHash: p.format.InstructionsHash}.String())}
}
