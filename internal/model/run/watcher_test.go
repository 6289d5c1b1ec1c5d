//go:build cgo

package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/cagent/pkg/runtime"
	"github.com/docker/cagent/pkg/tools"
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
	w.flushLine() // as after flushAfter
	say("helper", "is said")
	w.flushLine()
	say("root", "led\n")
	w.endLine()

	said := map[string]string{}
	for _, line := range readLines(t, file) {
		var step fleet.Step
		require.NoError(t, json.Unmarshal(line.Data, &step))
		said[step.Agent] += line.Text
	}
	require.Equal(t, map[string]string{"helper": "all is said\n", "root": "led\n"}, said)
}

// readLines returns the lines that were written to the file.
func readLines(t *testing.T, file *os.File) (all []driver.OutputLine) {
	t.Helper()
	_, err := file.Seek(0, 0)
	require.NoError(t, err)
	for lines := json.NewDecoder(file); lines.More(); {
		var line driver.OutputLine
		require.NoError(t, lines.Decode(&line))
		all = append(all, line)
	}
	return all
}

// TestNumericSecret checks that a secret that is a number is hidden in the data of steps, and that the data stays JSON. It also
// checks that the run goes on after data that is not JSON.
func TestNumericSecret(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer file.Close()
	read := &recorder{}
	read.record("123456")
	w := &watcher{run: &run{out: &output{limit: 1 << 20, file: file}, secrets: &secrets{recorder: read}}}
	w.writeToolCall(tools.ToolCall{ID: "1", Function: tools.FunctionCall{Name: "unlock", Arguments: `{"pin":123456}`}})
	w.writeToolCall(tools.ToolCall{ID: "2", Function: tools.FunctionCall{Name: "unlock", Arguments: `{"pin":"123456"}`}})
	w.writeStep("used", fleet.Step{Type: fleet.StepUsage, Usage: &fleet.RequestUsage{Model: "m", Input: 123456}})
	w.run.out.writeLine(driver.OutputLine{Text: "not JSON", Data: json.RawMessage("{")})
	w.run.out.writeLine(driver.OutputLine{Text: "not JSON", Outcome: &fleet.Outcome{Output: json.RawMessage("{")}})
	w.writeToolResult(tools.ToolCall{ID: "1"}, "no, 123456 is wrong", true)
	w.writeStep("planned", fleet.Step{Type: fleet.StepTodoList, Path: "a/123456", Items: []fleet.TodoItem{{Text: `say "123456"`}}})
	_, err = w.run.out.state()
	require.NoError(t, err)

	lines := readLines(t, file)
	require.Len(t, lines, 6)
	var steps []*fleet.Step
	for _, line := range lines {
		steps = append(steps, fleet.ParseStep(line.Data))
		require.NotContains(t, line.Text, "123456")
	}
	require.JSONEq(t, `"{\"pin\":[hidden]}"`, string(steps[0].Arguments))
	require.JSONEq(t, `{"pin":"[hidden]"}`, string(steps[1].Arguments))
	require.EqualValues(t, 123456, steps[2].Usage.Input)
	require.Equal(t, "not JSON", lines[3].Text)
	require.Equal(t, "no, [hidden] is wrong", steps[4].Result)
	require.Equal(t, "a/[hidden]", steps[5].Path)
	require.Equal(t, `say "[hidden]"`, steps[5].Items[0].Text)
}
