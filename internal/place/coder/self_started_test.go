package coder_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestPromptOnCommandLine checks a run of an agent that was started with its prompt on the command line. The prompt is
// not a message of the conversation, but it is on the agent's screen.
func TestPromptOnCommandLine(t *testing.T) {
	x, p := newFakePlace(t)
	r := x.newRun("Build the thing that was asked for, and\nopen a pull request.")
	r.SelfStarted = true
	x.showScreen("╭──╮\n> Build the thing that was asked\n  for, and\n  open a pull request.\n\n● Looking.", "running")
	require.NoError(t, p.Connect(x.agent()).Dispatch(t.Context(), r))
	r.Again = true
	require.NoError(t, p.Connect(x.agent()).Dispatch(t.Context(), r))
	require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(p.Connect(x.agent()).Dispatch(t.Context(), x.newRun("and another"))))

	x.showScreen("╭──╮\n> Build the thing that was asked\n  for, and\n  open a pull request.\n\n● Looking.\n\n● It is built.", "stable")
	var output strings.Builder
	cursor := ""
	o, err := p.Connect(x.agent()).Follow(t.Context(), r, "", func(out fleet.Output) error {
		output.WriteString(out.Text)
		cursor = out.Cursor
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "It is built.", o.Summary)
	require.Equal(t, 1, strings.Count(output.String(), "It is built."))

	// Another process follows the completed run from the cursor of the first process.
	o, err = x.newPlace().Connect(x.agent()).Follow(t.Context(), r, cursor, func(out fleet.Output) error {
		require.Empty(t, out.Text)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, "It is built.", o.Summary)
	require.Empty(t, x.prompts(), "the agent must not get a message")
	require.Zero(t, x.count("POST message"))
}

// TestAgentHasNotStarted dispatches a self-started run to an agent that has not started the task by itself. The call must fail,
// and the agent must not get a message.
func TestAgentHasNotStarted(t *testing.T) {
	x := newFakeCoder(t)
	r := x.newRun("Ready.") // the text is on the screen, but it is too short to be recognised
	r.SelfStarted = true
	requireError(t, x.newPlace().Connect(x.agent()).Dispatch(t.Context(), r), fleet.ReasonTaskNotFound, "spec_is_task")
	require.Empty(t, x.prompts())
}
