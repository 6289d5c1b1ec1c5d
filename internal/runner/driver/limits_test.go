package driver_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/driver"
)

func TestLimitsOfClaude(t *testing.T) {
	t.Parallel()
	d, err := driver.New(driver.Options{Kind: "claude"})
	require.NoError(t, err)
	argv := func(l driver.Limits) []string {
		c, err := d.Command(driver.Job{RunDir: "/run", Client: []string{"client"}, Role: driver.Role{Limits: l}})
		require.NoError(t, err)
		var job struct{ Argv []string }
		require.NoError(t, json.Unmarshal([]byte(c.Files[len(c.Files)-1].Data), &job))
		return job.Argv
	}
	limits := []string{"--effort", "high", "--max-turns", "20", "--max-budget-usd", "2.5"}
	require.Equal(t, append(argv(driver.Limits{}), limits...), argv(driver.Limits{Effort: "high", MaxTurns: 20, MaxCostUSD: 2.5}))
}
