package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDelegationSurvivesKills kills one process in each round, between the end of delegated tasks and the next turn of their parent. The parent must
// get each result once. The test has at least 12 rounds. If FLEET_CHAOS is set to a duration, it continues at least that long.
func TestDelegationSurvivesKills(t *testing.T) {
	const minRounds, maxDelay = 12, 1500 * time.Millisecond
	length, _ := time.ParseDuration(os.Getenv("FLEET_CHAOS"))
	b := newTestbed(t, "bob")
	d := newDelegationServer(t, b, managerGrant)
	d.create(t, "boss", "Runner", "manager")
	ws := d.workspaceOf("boss")
	d.call(t, "create_pool", object{"name": "crew", "project": "Runner", "role": "coder", "max_agents": 3})
	victims := []struct {
		name string
		kill func()
	}{
		{"the runner of the parent", func() { b.killRunner(t, ws) }},
		{"Coder's agent of the parent", func() { b.restartAgent(t, ws) }},
		{"the Fleet server", func() {
			d.kill(t)
			d.caller = b.serve(t, d.setup).callerOn("rest")
		}},
		{"the Coder server", func() { b.restartCoder(t) }},
	}
	kills, longest, shared := map[string]int{}, time.Duration(0), d.dir // each round has its own directory in shared
	for start, round := time.Now(), 0; round < minRounds || time.Since(start) < length; round++ {
		d.dir = filepath.Join(shared, fmt.Sprint(round))
		require.NoError(t, os.Mkdir(d.dir, 0o777)) //nolint:gosec // the workspaces can have other users
		require.NoError(t, os.Chmod(d.dir, 0o777)) //nolint:gosec // as above
		v, wake := victims[round%len(victims)], []string{"all", "each"}[round/len(victims)%2]
		var parts []object
		for n := range 3 {
			parts = append(parts, object{"pool": "crew", "wake": wake, "task_description": d.waitScript("parts") + fmt.Sprintf("echo part %d", n)})
		}
		id := d.startTask(t, "boss", d.script("", parts...))
		d.waitUntilWaiting(t, id, 3)
		b.eventually(t, "the parts run", func() bool {
			running := 0
			for _, c := range d.tree(t, id) {
				if c["status"] == "running" {
					running++
				}
			}
			return running == 3
		})
		d.openGate(t, "parts")
		opened, after := time.Now(), rand.N(maxDelay)
		<-time.After(after) // the kill comes at a random time, not after a signal
		v.kill()
		kills[v.name]++
		done := d.wait(t, id)
		longest = max(longest, time.Since(opened))
		require.Equal(t, "completed", done["status"], "%s was killed %s after the parts had ended: %v", v.name, after, done)
		feedback := d.waitForFile(t, "told")
		went := strings.Count(feedback, "# Went on\n")
		require.True(t, went == 1 || wake == "each" && went <= 3, "%s was killed %s after the parts had ended: %s", v.name, after, feedback)
		for n := range 3 {
			require.Equal(t, 1, strings.Count(feedback, fmt.Sprintf("# part %d\n", n)), "%s was killed %s after the parts had ended: %s", v.name, after, feedback)
		}
		for _, c := range d.tree(t, id) {
			require.Equal(t, "completed", c["status"])
		}
		b.eventually(t, "the boss is idle", func() bool { return d.agent(t, "boss")["status"] == "idle" })
	}
	t.Logf("kills %v; at most %s from the end of the parts to the end of the parent", kills, longest.Round(10*time.Millisecond))
	d.call(t, "delete_pool", object{"name": "crew"})
}
