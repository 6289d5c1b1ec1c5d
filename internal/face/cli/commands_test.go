package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

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

func TestEveryMethodHasACommand(t *testing.T) {
	t.Parallel()
	p := newProgram(Deps{})
	commands := p.commandsFor(nil)
	for _, file := range []protoreflect.FileDescriptor{fleetv1.File_fleet_v1_fleet_service_proto, fleetv1.File_fleet_v1_token_service_proto} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				tool := snake(string(methods.Get(j).Name()))
				line := strings.Trim(commands.of(tool, nil), `"`)
				cmd, rest, err := p.root.Find(strings.Fields(line)[1:])
				require.NoError(t, err, tool)
				require.Empty(t, rest, tool)
				require.True(t, cmd != p.root, "the tool %s has no command", tool)
			}
		}
	}
}
