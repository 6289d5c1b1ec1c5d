package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBuilds creates agents whose builds fail or hang. Each agent must show its true state, and it must be possible to delete the
// agent.
func TestBuilds(t *testing.T) {
	s := newTestbed(t, "bob").serve(t, setup{createWait: 10 * time.Second})
	t.Run("failing", func(t *testing.T) {
		t.Parallel()
		c := s.callerOn("mcp")
		answer, problem := c.try(t, "create_agent", object{"name": "Fails", "project": "fail-echo", "spec": "x"})
		if problem != nil {
			require.Equal(t, "PROVISIONING_FAILED", problem.Reason, "%v", problem)
			require.Contains(t, problem.Message, "failed!", "the text must contain the error of Coder's build")
		} else { // the build has not failed yet
			require.Equal(t, "offline", answer.text("agent.status"), "%v", answer)
		}
		within(t, defaultTimeout, "the agent has failed", func() bool { return c.agent(t, "Fails")["state"] == "failed" })
		a := c.agent(t, "Fails")
		require.Contains(t, a["state_reason"], "failed!", "the text must contain the error of Coder's build")
		c.requireRefusal(t, "start_agent_task", object{"agent_name": "Fails", "task_description": "echo x"}, "AGENT_OFFLINE", 400, "failed")
		c.remove(t, "Fails")
	})
	t.Run("hanging", func(t *testing.T) {
		t.Parallel()
		c := s.callerOn("rest")
		start := time.Now()
		r := c.call(t, "create_agent", object{"name": "Hangs", "project": "hang-echo", "spec": "x"})
		require.Less(t, time.Since(start), 20*time.Second, "the call must not wait longer than requested")
		require.Equal(t, "offline", r.text("agent.status"), "%v", r)
		require.Contains(t, []any{"pending", "starting"}, r.valueAt("agent.state"))
		require.NotEmpty(t, r.text("agent.state_reason"))
		c.remove(t, "Hangs")
	})
	t.Run("hanging, deleted at once", func(t *testing.T) {
		t.Parallel()
		c := s.callerOn("grpc")
		created := make(chan object, 1)
		go func() {
			r, _ := c.try(t, "create_agent", object{"name": "Hasty", "project": "hang-echo", "spec": "x"})
			created <- r
		}()
		within(t, defaultTimeout, "the agent is known", func() bool { return c.listedAgent(t, "Hasty") != nil })
		c.remove(t, "Hasty")
		<-created
	})
}
