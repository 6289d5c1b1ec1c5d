//go:build cgo

package run

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// TestHideToolSecrets checks that a run hides the secrets of registered tools, and that definitions and tools still read only the
// variables that they may use.
func TestHideToolSecrets(t *testing.T) {
	t.Setenv("WEATHER_TOKEN", "tool-secret-1")
	t.Setenv("MODEL_TOKEN", "model-secret-1")
	ctx, r, err := newRun(t.Context(), driver.ModelJob{Settings: driver.ModelSettings{ToolEnv: []string{"WEATHER_TOKEN"}}}, &output{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer r.cancel(nil)
	weather := fleet.Tool{Name: "weather", HTTP: &fleet.HTTPTool{URL: "https://weather.example.com", Headers: map[string]string{"X-Token": "Bearer ${WEATHER_TOKEN}"}}}
	b := &builder{run: r, agentConfig: &fleet.AgentConfig{Tools: []fleet.Tool{weather}}}
	_, err = b.newRegisteredTools(ctx)
	require.NoError(t, err)
	_, ok := r.secrets.Get(ctx, "MODEL_TOKEN")
	require.True(t, ok)
	_, ok = r.toolSecrets.Get(ctx, "MODEL_TOKEN")
	require.False(t, ok)
	require.Equal(t, "[hidden] and [hidden]", r.clip("tool-secret-1 and model-secret-1"))
}
