package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestDescriptionsNameCommands(t *testing.T) {
	t.Parallel()
	p := newProgram(Deps{})
	require.Equal(t, `see "fleet agent list"`, p.commandsFor(nil).describe("see `list_agents`", 0))
	sessions := toolsets()[2]
	require.Equal(t, "sessions", sessions.name)
	require.Equal(t, `see "fleet sessions list-agents", then "fleet task show" and "fleet providers list"`,
		p.commandsFor(sessions).describe("see `list_agents`, then `show_task` and `list_available_agents`", 0))
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
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if service.Name() == "HealthService" {
				continue
			}
			name, _ := proto.GetExtension(service.Options(), fleetv1.E_Toolset).(string)
			commands, methods := p.commandsFor(sets[name]), service.Methods()
			for j := range methods.Len() {
				tool := snake(string(methods.Get(j).Name()))
				line := strings.Trim(commands.of(tool, nil), `"`)
				require.True(t, strings.HasPrefix(line, "fleet "), "the tool %s has no command", tool)
				cmd, rest, err := p.root.Find(strings.Fields(line)[1:])
				require.NoError(t, err, tool)
				require.Empty(t, rest, tool)
				require.True(t, cmd.Runnable(), "%s: %s does nothing", tool, line)
				checked++
			}
		}
		return true
	})
	require.Greater(t, checked, 50)
}
