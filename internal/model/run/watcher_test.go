//go:build cgo

package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/cagent/pkg/runtime"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// TestSlowLine checks that a line ends before another agent speaks, even if its text was output before the line was complete.
func TestSlowLine(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer file.Close()
	w := &watcher{run: &run{out: &output{limit: 1 << 20, file: file}, secrets: &secrets{recorder: &recorder{}}}}
	say := func(agent, text string) { w.handle(t.Context(), runtime.AgentChoice(agent, text)) }
	say("helper", "all ")
	w.flush(false) // as after flushAfter
	say("helper", "is said")
	w.flush(false)
	say("root", "led\n")
	w.flush(true)

	_, err = file.Seek(0, 0)
	require.NoError(t, err)
	said := map[string]string{}
	for lines := json.NewDecoder(file); lines.More(); {
		var line driver.OutputLine
		var step fleet.Step
		require.NoError(t, lines.Decode(&line))
		require.NoError(t, json.Unmarshal(line.Data, &step))
		said[step.Agent] += line.Text
	}
	require.Equal(t, map[string]string{"helper": "all is said\n", "root": "led\n"}, said)
}
