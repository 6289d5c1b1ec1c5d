package cli

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestDescriptionsNameCommands checks that descriptions name commands instead of tools, and prefer those of the same toolset.
func TestDescriptionsNameCommands(t *testing.T) {
	t.Parallel()
	p := newProgram(Deps{})
	require.Equal(t, `see "fleet agent list"`, p.commandsFor(nil).formatDescription("see `list_agents`", 0))
	sessions := toolsets()[2]
	require.Equal(t, "sessions", sessions.name)
	require.Equal(t, `see "fleet sessions list-agents", then "fleet task show" and "fleet providers list"`,
		p.commandsFor(sessions).formatDescription("see `list_agents`, then `show_task` and `list_available_agents`", 0))
}

// TestEveryMethodHasACommand checks that the command line can call every method. The methods of HealthService have no
// commands, because programs call them before all other methods.
func TestEveryMethodHasACommand(t *testing.T) {
	t.Parallel()
	p := newProgram(Deps{})
	sets := map[string]*toolset{}
	for _, set := range toolsets() {
		sets[set.name] = set
	}
	checked := 0
	forEachMethod(func(m protoreflect.MethodDescriptor) {
		service, _ := m.Parent().(protoreflect.ServiceDescriptor)
		if service.Name() == "HealthService" {
			return
		}
		tool := snakeCase(string(m.Name()))
		line := strings.Trim(p.commandsFor(sets[toolsetOf(service)]).quotedCommand(tool, nil), `"`)
		require.True(t, strings.HasPrefix(line, "fleet "), "the tool %s has no command", tool)
		cmd, rest, err := p.root.Find(strings.Fields(line)[1:])
		require.NoError(t, err, tool)
		require.Empty(t, rest, tool)
		require.True(t, cmd.Runnable(), "%s: %s does nothing", tool, line)
		checked++
	})
	require.Greater(t, checked, 50)
}

// emptyServer is a server that answers every call with an empty message.
type emptyServer struct{ grpc.ClientConnInterface }

func (emptyServer) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return nil }

func (emptyServer) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

// TestColumnsExist runs the commands that are written by hand, except the ones that it names, so that their tables are made.
// A column of a field that does not exist would panic.
func TestColumnsExist(t *testing.T) {
	t.Parallel()
	count := 0
	walkCommands(newWithoutToolsets(Deps{}).root, func(cmd *cobra.Command) {
		if cmd.HasSubCommands() || !cmd.Runnable() || slices.Contains([]string{"login", "logout", "open", "show", "wait"}, cmd.Name()) {
			return
		}
		line := strings.Fields(cmd.CommandPath())[1:]
		for _, name := range argumentsOf(cmd) {
			if !strings.HasPrefix(name, "[") {
				line = append(line, "deny")
			}
		}
		for _, flags := range [][]string{nil, {"-o", "wide"}, {"-q"}} {
			if cmd.Flags().ShorthandLookup("o") != nil && len(flags) > 1 {
				continue
			}
			c := newCommand("")
			c.dial = func(context.Context, Target) (grpc.ClientConnInterface, func() error, error) {
				return emptyServer{}, func() error { return nil }, nil
			}
			c.run(append(line, flags...)...)
		}
		count++
	})
	require.Greater(t, count, 40)
}
