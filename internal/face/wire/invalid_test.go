package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

func TestInvalidReason(t *testing.T) {
	t.Parallel()
	fields := (&fleetv1.CreateAgentRequest{}).ProtoReflect().Descriptor().Fields()
	require.Equal(t, "INVALID_NAME", wire.InvalidReason(fields.ByName("name")))
	require.Equal(t, "INVALID_ARGUMENT", wire.InvalidReason(fields.ByName("request_id")))
}
