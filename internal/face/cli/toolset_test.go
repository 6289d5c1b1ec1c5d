package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestFlagsOfToolsets checks that each field of a method of a toolset has a flag with a description.
func TestFlagsOfToolsets(t *testing.T) {
	t.Parallel()
	root, checked := New(Deps{}), 0
	for _, set := range toolsets() {
		for _, m := range set.methods {
			checked++
			cmd, _, err := root.Find([]string{set.name, m.longName()})
			require.NoError(t, err, m.longName())
			flags := 0
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if in, ok := f.Value.(*input); ok {
					flags++
					require.NotEmpty(t, f.Usage, "%s --%s", m.longName(), f.Name)
					require.NotNil(t, m.desc.Input().Fields().ByName(in.desc.Name()))
				}
			})
			require.Equal(t, m.desc.Input().Fields().Len(), flags, m.longName())
		}
	}
	require.GreaterOrEqual(t, checked, 20)
}

// TestNamesOfCommands protects the names that people and scripts use: a new method must not take one of them.
func TestNamesOfCommands(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, set := range toolsets() {
		taken := map[string]bool{}
		for _, m := range set.methods {
			require.False(t, taken[m.command], "%s has two commands %s", set.name, m.command)
			taken[m.command] = true
			names[set.name+"."+m.toolName()] = m.command
		}
	}
	for tool, want := range map[string]string{
		"lifecycle.agent_start": "start", "lifecycle.agent_status": "status", "lifecycle.agent_complete": "complete",
		"lifecycle.agent_stop": "stop", "lifecycle.append_payload": "append", "lifecycle.download_payload": "download",
		"providers.execute_agent_request": "execute", "providers.list_available_agents": "list",
		"providers.probe_agent_status": "probe", "providers.register_tool_with_agent": "register",
		"sessions.create_agent_session": "create", "sessions.send_message": "send", "sessions.invoke_agent": "invoke",
		"sessions.list_agents": "list-agents", "sessions.get_agent_session_info": "info",
		"sessions.get_agent_session_history": "history", "sessions.list_agent_sessions": "list",
		"sessions.close_agent_session": "close", "sessions.pull_agent": "pull",
		"subagents.run_subagent": "run", "subagents.list_subagents": "list",
	} {
		require.Equal(t, want, names[tool], tool)
	}
}

// TestOptionsForTheCommandLine checks that the protos have the options that the command line needs, and that everything that
// these options name exists.
func TestOptionsForTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, set := range toolsets() {
		for _, m := range set.methods {
			if name := commandOf(m.desc).GetInterrupt(); name != "" {
				other := set.method(name)
				require.NotNil(t, other, name)
				for _, f := range other.fields {
					require.NotNil(t, m.desc.Input().Fields().ByName(f.desc.Name()), "%s has no %s", m.path(), f.desc.Name())
				}
			}
			require.True(t, !m.desc.IsStreamingServer() || m.isTurn() || m.isDownload(), "%s: no command can show such a stream", m.path())
			if p := portionOf(m.desc); p.GetNext() != "" {
				require.NotNil(t, m.desc.Input().Fields().ByName(protoreflect.Name(p.GetFrom())), "%s: %s", m.path(), p.GetFrom())
			}
			for f := range itemsOf(m.desc.Output().Fields()) {
				if f.IsList() && f.Message() != nil && !m.isDownload() && fieldWithRole(m.desc.Output(), fleetv1.Shown_text) == nil {
					require.NotNil(t, fieldWithRole(f.Message(), fleetv1.Shown_name), "%s has no name for -q", f.Message().FullName())
				}
			}
			for _, f := range m.fields {
				require.False(t, f.required && f.exampleValue() == "", "%s has no example", f.desc.FullName())
				path := shownOption(f.desc).GetListedBy()
				if path == "" {
					continue
				}
				listMethod, list, name := set.lister(f)
				require.NotNil(t, listMethod, path)
				require.NotNil(t, list, path)
				require.NotNil(t, name, path)
				require.True(t, listMethod.isReadOnly(), path)
				for _, f := range listMethod.fields {
					require.False(t, f.required, path)
				}
			}
		}
	}
}

// TestExamplesAreRight runs the examples of the derived commands, except those that need files. Each command line must be valid,
// whatever the server answers.
func TestExamplesAreRight(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	count := 0
	walkCommands(New(Deps{}), func(cmd *cobra.Command) {
		if !isDerived(cmd) || cmd.HasSubCommands() {
			return
		}
		for line := range strings.Lines(cmd.Example) {
			if strings.Contains(line, "@") || strings.Contains(line, "--"+outputFileFlag) {
				continue // the example names files that do not exist
			}
			count++
			words := splitShellWords(t, line)
			_, text, code := runFleet(server, words[1:]...)
			require.NotEqual(t, ExitUsage, code, "%s: %s", line, text)
		}
	})
	require.GreaterOrEqual(t, count, 20)
}

// splitShellWords splits a line at spaces outside double quotes. It does not know the other quoting rules of shells.
func splitShellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	for i, part := range strings.Split(strings.TrimSpace(line), `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func TestToolsetUsageErrors(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	for line, want := range map[string]string{
		"lifecycle complete":                            "fleet: AGENT-ID and SUMMARY are missing: fleet lifecycle complete AGENT-ID SUMMARY [flags]",
		"lifecycle complete --agent-id x":               "fleet: SUMMARY is missing: ",
		"lifecycle complete --summary s":                "fleet: AGENT-ID is missing: ",
		"lifecycle complete --agent-id x --summary s a": `too many arguments, from "a" on`,
		"lifecycle status":                              "fleet: AGENT-ID is missing: fleet lifecycle status AGENT-ID... [flags]",
		"lifecycle start do it":                         `too many arguments, from "it" on; put quotes`,
		"providers list all":                            `too many arguments, from "all" on`,
		"providers execute x y --execute-timeout soon":  "give a whole number",
		"providers list --include-status=maybe":         "give true or false",
		"sessions list-agents --source nowhere":         "give files, store, fleet or all",
		"sessions sent x y":                             `did you mean "fleet sessions send"?`,
		"sessions send x --mesage y":                    "did you mean --message?",
		"providers register t nothing":                  "the tool spec is neither a JSON object nor KEY=VALUE",
		"lifecycle start @nowhere.md":                   `write a text that begins with @ as \@`,
	} {
		out, text, code := runFleet(server, strings.Fields(line)...)
		require.Equal(t, ExitUsage, code, line)
		require.Contains(t, text, want, line)
		require.Empty(t, out, line)
	}
}

// TestErrorsNameCommandsOfTheToolset checks that an error of a derived command names the commands of its own toolset instead of
// the tools.
func TestErrorsNameCommandsOfTheToolset(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.handlers = map[string]func(proto.Message, grpc.ServerStream) error{
		"AgentStop":           answerWith(nil, statusError(codes.NotFound, "AGENT_NOT_FOUND", `agent "nobody" not found`, nil, "{agent_list} shows the agents")),
		"GetAgentSessionInfo": answerWith(nil, statusError(codes.NotFound, "SESSION_NOT_FOUND", `there is no session "nobody"`, nil, "{list_agent_sessions} shows the open ones")),
	}
	server, _ := s.listen(t, "")
	_, text, code := runFleet(server, "lifecycle", "stop", "nobody")
	require.Equal(t, ExitNotFound, code)
	require.Equal(t, "fleet: agent \"nobody\" not found; \"fleet lifecycle list\" shows the agents\n", text)
	_, text, code = runFleet(server, "sessions", "info", "nobody")
	require.Equal(t, ExitNotFound, code)
	require.Equal(t, "fleet: there is no session \"nobody\"; \"fleet sessions list\" shows the open ones\n", text)
}

func TestCompletionOfToolsets(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.handlers = map[string]func(proto.Message, grpc.ServerStream) error{
		"ListAvailableAgents": answerWith(&fleetv1.ListAvailableAgentsResponse{Agents: []*fleetv1.AvailableAgent{{Name: "claude", Description: "Models behind an API"}, {Name: "shout", Description: "A program"}}}, nil),
		"ListSubagents":       answerWith(&fleetv1.ListSubagentsResponse{Subagents: []*fleetv1.Subagent{{Name: "reviewer", Description: "Reads code"}}}, nil),
		"ListAgents":          answerWith(&fleetv1.SessionServiceListAgentsResponse{Agents: []*fleetv1.AgentInfo{{Name: "papi", Description: "Keeps the build green"}}}, nil),
		"ListAgentSessions":   answerWith(&fleetv1.ListAgentSessionsResponse{Sessions: []*fleetv1.SessionInfo{{AgentSessionId: "s-1", Title: "Plan the week"}}}, nil),
	}
	server, _ := s.listen(t, "")
	for line, want := range map[string]string{
		"providers execute ":                "claude\tModels behind an API\nshout\tA program\n:4\n",
		"providers execute s":               "shout\tA program\n:4\n",
		"providers execute claude ":         ":4\n",
		"providers execute --agent-name c":  "claude\tModels behind an API\n:4\n",
		"providers register t spec":         ":4\n",
		"providers list --capability-":      "--capability-filter\tonly agents with this capability, e.g. \"code_generation\"; no agents if it is unknown\n:4\n",
		"subagents run ":                    "reviewer\tReads code\n:4\n",
		"sessions create ":                  "papi\tKeeps the build green\n:4\n",
		"sessions info ":                    "s-1\tPlan the week\n:4\n",
		"sessions send --agent-session-id ": "s-1\tPlan the week\n:4\n",
		"sessions list-agents --source f":   "files\nstore\nfleet\nall\n:4\n",
	} {
		out, _, code := runFleet(server, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		require.Equal(t, ExitOK, code, line)
		require.Equal(t, want, out, line)
	}
}

// TestToolsetsAreLeftOut checks which command lines need the toolsets' commands.
func TestToolsetsAreLeftOut(t *testing.T) {
	t.Parallel()
	for line, needed := range map[string]bool{
		"":                                   true,
		"--help":                             true,
		"help":                               true,
		"help sessions":                      true,
		"help agent list":                    true,
		"sessions list":                      true,
		"-o json --server h:1 sessions list": true,
		"sesions list":                       true,
		"__complete s":                       true,
		"completion bash":                    true,
		"version":                            true,
		"agent list":                         false,
		"agent lst":                          false,
		"-o json --server h:1 task list":     false,
		"status --help":                      false,
		"token list":                         false,
	} {
		require.Equal(t, needed, newWithoutToolsets(Deps{}).needsToolsets(strings.Fields(line)), "fleet %s", line)
	}
}
