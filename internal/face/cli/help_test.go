package cli

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/facetest"
)

var update = flag.Bool("update", false, "write the golden help texts and the page's table of calls")

// walkCommands calls f for cmd and all commands below it, except cobra's commands help and completion.
func walkCommands(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	f(cmd)
	for _, sub := range cmd.Commands() {
		walkCommands(sub, f)
	}
}

func TestHelpTexts(t *testing.T) {
	t.Parallel()
	walkCommands(New(Deps{}), func(cmd *cobra.Command) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			t.Parallel()
			c := newCommand("")
			args := append([]string{"help"}, strings.Fields(cmd.CommandPath())[1:]...)
			require.Equal(t, ExitOK, c.run(args...), c.stderr.String())
			for line := range strings.Lines(c.stdout.String()) {
				require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 130, line)
			}
			if isDerived(cmd) { // the texts come from the proto files and are reviewed there
				return
			}
			golden := filepath.Join("../../../testdata/cli/help", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".txt")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				require.NoError(t, os.WriteFile(golden, []byte(c.stdout.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "to write the file, run go test ./internal/face/cli -run TestHelpTexts -update")
			require.Equal(t, string(want), c.stdout.String())
		})
	})
}

// isDerived reports whether the command is a toolset or belongs to one.
func isDerived(cmd *cobra.Command) bool {
	return cmd.GroupID == GroupTools || cmd.HasParent() && isDerived(cmd.Parent())
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	walkCommands(New(Deps{}), func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		require.LessOrEqual(t, len(cmd.Short), 70, "%s: the first sentence about it is too long for a list of commands", cmd.CommandPath())
		require.NotEmpty(t, cmd.Long, cmd.CommandPath())
		if cmd.Runnable() {
			require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			require.True(t, strings.HasPrefix(line, "  "), "%s: %q", cmd.CommandPath(), line)
		}
	})
}

func TestCommandsOfTheApp(t *testing.T) {
	t.Parallel()
	c := newCommand("h:1")
	var got Target
	serve := &cobra.Command{Use: "serve", Short: "Serve", GroupID: GroupServer, RunE: func(cmd *cobra.Command, _ []string) (err error) {
		got, err = TargetOf(cmd)
		if err == nil {
			err = Fail(ExitConflict, "stop it first", "a server runs already")
		}
		return err
	}}
	code := Run(t.Context(), []string{"serve", "--data", "d"}, Deps{Stdout: c.stdout, Stderr: c.stderr, Getenv: func(k string) string { return c.env[k] }}, serve)
	require.Equal(t, ExitConflict, code)
	require.Equal(t, Target{Server: "h:1", Data: "d"}, got)
	require.Equal(t, "fleet: a server runs already; stop it first\n", c.stderr.String())
}

// pageTablePath is the path of the live page's table of calls. The page shows calls as commands and as requests.
const pageTablePath = "../page/src/lib/calls.json"

// copyableTools are the tools whose calls the page offers to copy.
var copyableTools = []string{
	"create_agent", "start_agent", "stop_agent", "restart_agent", "delete_agent", "show_agent_log", "share_agent", "unshare_agent",
	"start_agent_task", "send_task_message", "stop_agent_task", "stop_task", "show_task", "show_task_tree", "retry_task", "delete_task", "answer_question",
	"create_agent_session", "send_message", "interrupt_agent_session", "close_agent_session",
	"agent_stop", "probe_agent_status", "run_subagent",
	"create_token", "rotate_token", "revoke_token", "list_audit", "list_principals", "list_queue",
}

// pageCall is an entry of the live page's table: how to call a method.
type pageCall struct {
	HTTP      string            `json:"http"`                // verb and path
	Tool      bool              `json:"tool"`                // whether the method is an MCP tool
	Command   []string          `json:"command"`             // without "fleet"
	Arguments []string          `json:"arguments,omitempty"` // fields of the request that are arguments, in their order
	Flags     map[string]string `json:"flags,omitempty"`     // flags by the fields of the request
}

// TestPageCalls checks that the live page's table of calls agrees with the proto files and the commands.
func TestPageCalls(t *testing.T) {
	t.Parallel()
	p := newProgram(Deps{})
	table := map[string]pageCall{}
	forEachMethod(func(m protoreflect.MethodDescriptor) {
		tool := snakeCase(string(m.Name()))
		toolCmd, ok := p.commandsFor(nil).byTool[tool]
		verb, path := facetest.Binding(m)
		if !slices.Contains(copyableTools, tool) {
			return
		}
		require.True(t, ok, "%s has no command", tool)
		require.NotEmpty(t, path, "%s has no HTTP path", tool)
		cmd, _, err := p.root.Find(strings.Fields(toolCmd.path)[1:])
		require.NoError(t, err)
		call := pageCall{HTTP: verb + " " + path, Tool: isTool(m), Command: strings.Fields(cmd.CommandPath())[1:], Flags: map[string]string{}}
		for f := range itemsOf(m.Input().Fields()) {
			name := commandFlag(cmd, f)
			if isDerived(cmd) && isRequired(f) { // it has a flag too, but the page shows the argument
				name = ""
			}
			if name != "" {
				call.Flags[string(f.Name())] = name
			} else if isRequired(f) {
				call.Arguments = append(call.Arguments, string(f.Name()))
			}
		}
		table[tool] = call
	})
	for _, tool := range copyableTools {
		call := table[tool]
		cmd, _, err := p.root.Find(call.Command)
		require.NoError(t, err, tool)
		require.NoError(t, cmd.Args(cmd, call.Arguments), "%s must accept the arguments %s", tool, call.Arguments)
	}
	got, err := json.MarshalIndent(table, "", " ")
	require.NoError(t, err)
	got = append(got, '\n')
	if *update {
		require.NoError(t, os.WriteFile(pageTablePath, got, 0o644))
	}
	want, err := os.ReadFile(pageTablePath)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "the page's table is stale: run go test ./internal/face/cli -run TestPageCalls -update, and make page")
}

// isTool reports whether the method is an MCP tool.
func isTool(m protoreflect.MethodDescriptor) bool {
	return toolsetOf(m.Parent().(protoreflect.ServiceDescriptor)) != "" && (&method{desc: m}).isTool()
}

// commandFlag returns the name of the flag for the field, or "". The name of a flag may lack the plural "s" of a list, or the suffix
// "-seconds" or "-name" of the field.
func commandFlag(cmd *cobra.Command, f protoreflect.FieldDescriptor) string {
	name := flagNameOf(string(f.Name()))
	for _, name := range []string{name, strings.TrimSuffix(name, "s"), strings.TrimSuffix(name, "-seconds"), strings.TrimSuffix(name, "-name")} {
		if cmd.Flags().Lookup(name) != nil {
			return name
		}
	}
	return ""
}

func isRequired(f protoreflect.FieldDescriptor) bool {
	return slices.Contains(behavioursOf(f), annotations.FieldBehavior_REQUIRED)
}

// TestHelpOfUnknownCommand checks that help for an unknown command fails like the unknown command itself.
func TestHelpOfUnknownCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"help bogus":       `unknown command "bogus" for "fleet"`,
		"help agent bogus": `unknown command "bogus" for "fleet agent"`,
		"help tsk":         `did you mean "fleet task"?`,
		"help nope":        `unknown command "nope" for "fleet"; see "fleet --help"`,
		"tksa":             `did you mean "fleet task"?`,
	} {
		c := newCommand("")
		require.Equal(t, ExitUsage, c.run(strings.Fields(line)...), line)
		require.Contains(t, c.stderr.String(), want, line)
		require.Empty(t, c.stdout.String(), line)
	}
	for _, line := range []string{"help", "help task run", "help exit-codes"} {
		c := newCommand("")
		require.Equal(t, ExitOK, c.run(strings.Fields(line)...), line)
		require.NotEmpty(t, c.stdout.String(), line)
	}
}
