package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/wire"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"agent_name", "task_description", "request_id"}
	for name, want := range map[string]string{
		"agent_name": "agent_name", "AGENT-NAME": "agent_name", "agnet_name": "agent_name", "requestId": "request_id",
		"task_desc": "", "x": "", "": "", strings.Repeat("agent_name", 100): "",
	} {
		require.Equal(t, want, wire.Nearest(name, known), name)
	}
}
