package driver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestTaskOptions checks that drivers pass the options that they support to their programs, and that the others are refused by name.
func TestTaskOptions(t *testing.T) {
	t.Parallel()
	all := fleet.TaskOptions{Model: "m-2", Effort: "high", MaxTurns: new(7), MaxCostUSD: new(0.25), AppendSystemPrompt: "Be brief."}
	j := Job{Agent: "papi", Prompt: "Do it.", RunDir: "/runs/1", Role: Role{Name: "coder", Model: "m-1"}, ClientCommand: []string{"fleet"}}
	command := func(kind string, o fleet.TaskOptions) (Driver, Command) {
		d, err := New(Options{Kind: kind, Command: []string{"program"}})
		require.NoError(t, err)
		c, err := d.Command(j.WithOptions(o))
		require.NoError(t, err)
		return d, c
	}

	d, c := command("claude", all)
	require.NoError(t, CheckOptions(d, all))
	job := c.Files[len(c.Files)-1].Data
	require.Contains(t, job, `"--model","m-2","--effort","high","--max-turns","7","--max-budget-usd","0.25"`)
	require.Contains(t, job, "Be brief.")
	_, c = command("claude", fleet.TaskOptions{})
	require.Contains(t, c.Files[len(c.Files)-1].Data, `"--model","m-1"`)

	supported := fleet.TaskOptions{Model: "m-2", Effort: "high", AppendSystemPrompt: "Be brief."}
	d, c = command("codex", supported)
	require.NoError(t, CheckOptions(d, supported))
	require.Subset(t, c.Argv, []string{"m-2", `model_reasoning_effort="high"`})
	require.Contains(t, c.Files[0].Data, "Be brief.")
	_, c = command("codex", fleet.TaskOptions{})
	require.NotContains(t, c.Argv, `model_reasoning_effort="high"`)
	c, err := d.Command(Job{RunDir: "/runs/1", Role: Role{RoleOptions: RoleOptions{Effort: "low"}}})
	require.NoError(t, err)
	require.Contains(t, c.Argv, `model_reasoning_effort="low"`, "the effort of a role must be passed on")
	require.ErrorContains(t, CheckOptions(d, all), "does not support max_turns")
	require.ErrorContains(t, CheckOptions(d, fleet.TaskOptions{Effort: "max"}), "minimal, low")

	d, c = command("acp", fleet.TaskOptions{Model: "m-2", AppendSystemPrompt: "Be brief."})
	require.Contains(t, c.Files[0].Data, `"model":"m-2"`)
	require.Contains(t, c.Files[0].Data, "Be brief.")
	require.ErrorContains(t, CheckOptions(d, supported), "does not support effort")

	for _, kind := range []string{"shell", "command"} {
		d, _ := command(kind, fleet.TaskOptions{})
		err := CheckOptions(d, all)
		require.ErrorContains(t, err, "the driver "+kind+" does not support model")
		require.ErrorContains(t, err, "claude, codex")
	}
}
