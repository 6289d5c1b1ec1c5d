package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestValuesOfNamesEnums checks that the option values_of of each field names enums that exist.
func TestValuesOfNamesEnums(t *testing.T) {
	t.Parallel()
	found := 0
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		for f := range itemsOf(m.Descriptor().Fields()) {
			for _, name := range shownOption(f).GetValuesOf() {
				found++
				_, err := protoregistry.GlobalTypes.FindEnumByName(protoreflect.FullName(name))
				require.NoError(t, err, "%s", f.FullName())
			}
		}
		return true
	})
	require.Positive(t, found)
}

// TestColorsComeFromTheProtos checks that the options of enum values in the protos determine the colours of values and events.
func TestColorsComeFromTheProtos(t *testing.T) {
	t.Parallel()
	require.Equal(t, green, colorOf(fleetv1.Agent_idle))
	require.Equal(t, red, colorOf(fleetv1.TaskCheck_timed_out))
	require.Equal(t, defaultColor, colorOf(fleetv1.Task_human))
	require.Equal(t, defaultColor, colorOf(fleetv1.Task_Status(99)), "an unknown value, which a newer server may send, must have no colour")
	for event, want := range map[*fleetv1.Event]color{
		{Type: fleetv1.Event_task_step, Status: ""}:                cyan,
		{Type: fleetv1.Event_task_ended, Status: "failed"}:         red,
		{Type: fleetv1.Event_agent_changed, Status: "unhealthy"}:   red,
		{Type: fleetv1.Event_agent_changed, Status: "never heard"}: defaultColor,
		{Type: fleetv1.Event_task_output, Status: ""}:              defaultColor,
	} {
		require.Equal(t, want, eventColor(event), "%v", event)
	}
}

// TestExitCodesOfReasons checks that ExitNotFound is the only exit code that the proto assigns to reasons.
func TestExitCodesOfReasons(t *testing.T) {
	t.Parallel()
	values := fleetv1.ErrorReason(0).Descriptor().Values()
	for v := range itemsOf(values) {
		require.Contains(t, []int32{0, ExitNotFound}, valueOption(v).GetExitCode(), "%s", v.Name())
	}
	require.Equal(t, int32(ExitNotFound), valueOption(values.ByName("ROLE_NOT_FOUND")).GetExitCode())
}

// TestRequestIDsAreMarked checks that each field for a request id has the role by which the CLI finds it.
func TestRequestIDsAreMarked(t *testing.T) {
	t.Parallel()
	found := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(file protoreflect.FileDescriptor) bool {
		for m := range itemsOf(file.Messages()) {
			if f := m.Fields().ByName("request_id"); f != nil {
				found++
				require.Equal(t, f, fieldWithRole(m, fleetv1.Shown_request_id), "%s", f.FullName())
			}
		}
		return true
	})
	require.GreaterOrEqual(t, found, 18)
}
