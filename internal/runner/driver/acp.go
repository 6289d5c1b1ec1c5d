package driver

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/shim"
)

// acpDriver runs a program that speaks the Agent Client Protocol. The client side of the protocol is a separate
// process of the run (see package acp). The tasks of an agent share one conversation if the program can continue its
// sessions.
type acpDriver struct{ options Options }

func newACPDriver(o Options) (acpDriver, error) {
	if len(o.Command) == 0 || strings.TrimSpace(o.Command[0]) == "" {
		return acpDriver{}, fmt.Errorf("the driver \"acp\" needs the option command: the program and its arguments, such as [opencode, acp]")
	}
	return acpDriver{o}, nil
}

func (a acpDriver) Program() string { return a.options.Command[0] }

func (a acpDriver) Keys() []string { return a.options.Keys }

// HomeFiles implements HomeFilesDriver.
func (a acpDriver) HomeFiles() map[string]string { return a.options.Home }

func (a acpDriver) Command(j Job) (Command, error) {
	const file = "acp.json"
	if j.Role.Tools != nil {
		return Command{}, fleet.InvalidField("role",
			"the driver \"acp\" cannot limit which tools are available: leave tools out of the role %q, and use allowed_tools and disallowed_tools", j.Role.Name)
	}
	if text := SchemaPrompt(j.Options.OutputSchema); text != "" { // the protocol has no option for the schema
		j.Prompt += "\n\n" + text
	}
	previous, instructionsHash := parseConversation(j.Session), fingerprint(standingInstructions(j))
	job := acp.Job{
		Argv: a.options.Command, TestedVersion: a.options.TestedVersion, Session: previous.id, FirstPrompt: firstPrompt(j, fullInstructions(j)), Prompt: j.Prompt, Model: j.Role.Model,
		Mode: j.Role.PermissionMode, MessagesFD: shim.MessagesFD, Policy: acp.Policy{
			Allow: allowedTools(j), Deny: denyRules(j.Role), Edits: j.Role.PermissionMode == acp.AcceptEdits,
		},
	}
	if a.options.WaitsForNextMinute && previous.id != "" {
		job.NotBefore = j.SessionUsedAt.Truncate(time.Minute).Add(time.Minute)
	}
	if previous.instructionsHash != instructionsHash {
		job.Prompt = changedInstructions(j)
	}
	servers := mcpServersOf(j)
	if len(j.AskCommand) > 0 {
		job.RunDir = j.RunDir
		servers[AskServer] = askServerConfig(j)
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		job.Servers = append(job.Servers, acp.Server{Name: name, Type: cmp.Or(s.Type, "stdio"), Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers})
	}
	return Command{
		Argv: append(slices.Clone(j.ClientCommand), ProtocolACP, j.path(file)), AgentProgram: a.Program(), Env: a.options.Env, ReadsMessages: true, ConfirmsMessages: true, SplitStderr: true,
		// The headers of MCP servers may be secrets.
		Files:  []File{{Name: file, Data: string(encodeJSON(job)), Secret: true}},
		Format: Format{Kind: "acp", Session: j.Session, InstructionsHash: instructionsHash, Program: filepath.Base(a.options.Command[0]), Model: j.Role.Model, FindsOutput: len(j.Options.OutputSchema) > 0},
	}, nil
}
