package npm

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// killCount returns the number of kills in TestClaudeMessageKills: the value of KILLS, or a default.
func killCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv("KILLS")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "KILLS")
	return n
}

// TestClaudeMessageKills sends messages to a busy agent while its server or the supervisor of its run is killed. If the run
// continues, the agent gets the message exactly once, in the same turn, or the task reports that the message was not
// delivered. If the run ends with its supervisor, a later task of the conversation does not repeat the message.
func TestClaudeMessageKills(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash"}})
	for _, agent := range []string{"papi", "mami"} {
		c.create(t, agent, "coder")
	}
	undelivered := 0 // number of messages that their tasks report as not delivered
	for i := range killCount(t) {
		n := strconv.Itoa(i)
		agent := []string{"papi", "mami"}[i%2]
		work := c.workDir(t, agent)
		id := c.start(t, agent, "Work number "+n+".", `model: tool Bash {"command":"touch begun`+n+`; until [ -e go`+n+` ]; do sleep 0.02; done"}`, "model: say Done")
		waitForFile(t, filepath.Join(work, "begun"+n))

		message := "Greet number " + n + "."
		send := func() error {
			_, err := c.api.SendTaskMessage(t.Context(), &fleetv1.SendTaskMessageRequest{AgentName: agent, Message: message, RequestId: "r" + n})
			return err
		}
		sent := make(chan error, 1)
		go func() { sent <- send() }()
		time.Sleep(rand.N(80 * time.Millisecond)) // at any point of the delivery
		if agent == "papi" {
			c.kill(t)
			err := <-sent
			c.serve(t)
			if err != nil {
				require.NoError(t, send(), "a caller without an answer must be able to repeat the call")
			}
			require.NoError(t, os.WriteFile(filepath.Join(work, "go"+n), nil, 0o600))
			events := c.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_ended })
			requests := c.requestsWith("Work number " + n + ".")
			times := strings.Count(requests[len(requests)-1].conversationText(), message)
			if times == 0 { // the tool ended before the new server could deliver the message
				require.Contains(t, strings.Join(eventTexts(events, fleetv1.Event_task_step), "\n"), "a message was not delivered to the agent")
				undelivered++
				continue
			}
			require.Equal(t, 1, times)
			require.Equal(t, 1, strings.Count(requests[1].conversationText(), message), "the message must not start a turn of its own")
			continue
		}
		c.killSupervisor(t, id)
		<-sent
		require.Equal(t, fleetv1.Task_failed, c.wait(t, id).GetStatus())
		task := c.runTask(t, agent, "Look back at number "+n+".", "model: say Nothing")
		require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
		requests := c.requestsWith("Look back at number " + n + ".")
		require.Len(t, requests, 1)
		require.LessOrEqual(t, strings.Count(requests[0].conversationText(), message), 1)
	}
	t.Logf("of %d messages, %d were not delivered, and their tasks say so", killCount(t), undelivered)
}

// killSupervisor kills the supervisor of the task's run.
func (c *claudeFleet) killSupervisor(t *testing.T, task string) {
	t.Helper()
	for _, p := range c.home.processes() {
		if strings.Contains(p.command, " shim ") && strings.Contains(p.command, filepath.Base(c.runDir(t, task))) {
			require.NoError(t, syscall.Kill(p.pid, syscall.SIGKILL))
			return
		}
	}
	require.Fail(t, "the run must have a supervisor")
}
