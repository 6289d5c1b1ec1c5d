package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestMessagesNameCommands(t *testing.T) {
	t.Parallel()
	const busy = `agent "papi" has a running task, 1 (echo: x): wait for it with wait_tasks, or stop it with stop_agent_task`
	require.Equal(t, `agent "papi" has a running task, 1 (echo: x)`, inCommands(busy, "a hint", nil))
	require.Equal(t, `agent "papi" has a running task, 1 (echo: x): wait for it with "fleet task wait", or stop it with "fleet task stop"`, inCommands(busy, "", nil))
	require.Equal(t, "page_size is bad: give a number", inCommands("page_size is bad: give a number", "a hint", nil))
}

func TestEveryMethodHasACommand(t *testing.T) {
	t.Parallel()
	root := New(Deps{})
	known := map[string]bool{}
	for _, file := range []protoreflect.FileDescriptor{fleetv1.File_fleet_v1_fleet_service_proto, fleetv1.File_fleet_v1_token_service_proto} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				name := snake(string(methods.Get(j).Name()))
				known[name] = true
				cmd, rest, err := root.Find(strings.Fields(commands[name]))
				require.NoError(t, err, name)
				require.Empty(t, rest, name)
				require.True(t, cmd != root, "the tool %s has no command", name)
			}
		}
	}
	require.Len(t, commands, len(known))
}
