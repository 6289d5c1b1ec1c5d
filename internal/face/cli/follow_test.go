package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestFollowGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s, server, stop := stubWithAgent(t)
	first, openFirst := newGate(t)
	second, openSecond := newGate(t)

	c := newCommand(server)
	code := c.start("task", "run", "papi", fmt.Sprintf("echo one; read x < %s; echo two; read x < %s; echo three", first, second), "--follow")
	c.stdout.await(t, "one\n")
	stop() // like a crash; the log keeps the events until the server is back
	openFirst()
	c.stderr.await(t, "broke")
	_, stop = s.listen(t, server)
	c.stdout.await(t, "two\n")
	c.stderr.await(t, "Connected again.")
	stop()
	s.listen(t, server)
	openSecond()
	require.Equal(t, ExitOK, waitForExit(t, code), c.stderr.String())
	require.Equal(t, "one\ntwo\nthree\n", c.stdout.String())
	require.Contains(t, c.stderr.String(), "Completed in")
}

// TestFollowTakesEachEventOnce checks that each event is shown once, even if the server ends streams in different ways and
// sends events again.
func TestFollowTakesEachEventOnce(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	var mu sync.Mutex
	streams := 0
	s.beforeWatch = func(r *fleetv1.WatchFleetRequest) error {
		mu.Lock()
		defer mu.Unlock()
		if !r.GetFollow() {
			return nil
		}
		switch streams++; streams {
		case 1:
			return status.Error(codes.Unavailable, "not yet")
		case 2:
			return status.Error(codes.Canceled, "going down")
		case 3:
			r.Cursor = "" // send all events again
		}
		return nil
	}
	out, _ := mustRun(t, server, "task", "run", "papi", "for i in 1 2 3 4 5; do echo $i; done", "-f")
	require.Equal(t, "1\n2\n3\n4\n5\n", out)
	require.Equal(t, 3, streams)
}

// TestFollowMissesNothingAfterAnEarlyEnd checks that no output is missing if the server ends the stream without an error
// before it has sent the task's events.
func TestFollowMissesNothingAfterAnEarlyEnd(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	var once sync.Once
	s.beforeWatch = func(r *fleetv1.WatchFleetRequest) (err error) {
		once.Do(func() {
			_, _, err = s.waitForTasks(t.Context(), []string{r.GetTaskId()}, fleetv1.WaitTasksRequest_all, time.Minute)
			if err == nil {
				err = errEndEarly
			}
		})
		return err
	}
	out, _ := mustRun(t, server, "task", "run", "papi", "echo one; echo two", "-f")
	require.Equal(t, "one\ntwo\n", out)
}

func TestFollowGivesUpWithAHint(t *testing.T) {
	t.Parallel()
	_, server, stop := stubWithAgent(t)
	gate, _ := newGate(t)
	c := newCommand(server)
	c.reconnectTime = 1 // nanosecond
	code := c.start("task", "run", "papi", "echo one; read x < "+gate, "-f")
	c.stdout.await(t, "one\n")
	stop()
	require.Equal(t, ExitUnavailable, waitForExit(t, code))
	require.Regexp(t, `fleet: cannot reach .*; the task may go on; to follow it again: fleet watch --task task-1 --cursor 5 --follow\n$`, c.stderr.String())
}

// TestFollowFromTerminal checks that "task run --follow" explains at the end that the result was read from the agent's terminal.
func TestFollowFromTerminal(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	yes := true
	s.beforeUnary = func(_ context.Context, method string, _ any) error {
		if strings.HasSuffix(method, "/ShowTask") {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tasks[0].FromTerminal = &yes
		}
		return nil
	}
	out, stderr := mustRun(t, server, "task", "run", "papi", "echo one", "--follow")
	require.Equal(t, "one\n", out)
	require.Contains(t, stderr, "The result was read from the agent's terminal")
}
