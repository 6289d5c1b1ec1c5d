package service_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/reconcile"
	"fleet/internal/service"
	"fleet/internal/state"
)

// checkPoints are the points that tasks with checks come to.
var checkPoints = []string{reconcile.FaultCheckBefore, reconcile.FaultCheckAfter, reconcile.FaultRetryRecorded}

// TestCrashWhileChecked does what TestCrashAtEveryPoint does, with a task whose checks fail once.
func TestCrashWhileChecked(t *testing.T) {
	t.Parallel()
	for _, point := range checkPoints {
		for n := 1; n <= 3 && (n == 1 || point != reconcile.FaultRetryRecorded); n++ {
			t.Run(fmt.Sprint(point, " ", n), func(t *testing.T) {
				t.Parallel()
				died := make(chan struct{})
				var h *harness
				die := once(n, func() {
					go h.rec.Stop()
					<-h.rec.Stopping()
					close(died)
				})
				h = newHarness(t, checking, func(c *state.Config) {
					c.Fault = func(p string) {
						if p == point {
							die()
						}
					}
				})
				go func() {
					<-died
					h.rec2()
				}()
				h.create("papi")
				task := h.end(h.startChecked("papi", "echo one\ndone", 1, "echo fine", "has made fix: change made a line").ID)
				<-died
				require.Equal(t, fleet.TaskCompleted, task.Status, task.Reason)
				require.Equal(t, 1, task.Try)
				require.Equal(t, []fleet.CheckStatus{fleet.CheckPassed, fleet.CheckPassed}, h.results(task.ID))
				require.Equal(t, "one", h.output(task.ID))
				require.Equal(t, "made", h.changed(task.ID))
				require.Equal(t, 1, h.world.Deliveries(task.ID))
				require.Equal(t, 1, h.world.Deliveries(task.ID+"-2"))
			})
		}
	}
}

// TestCrashAtEveryPoint lets the reconciler die at each of the points where dying leaves the most to be put right, and
// another one take over on the same store and world.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range reconcile.FaultPoints {
		if slices.Contains(checkPoints, point) {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			died := make(chan struct{})
			var h *harness
			die := once(1, func() {
				go h.rec.Stop() // from here on nothing more is done or recorded
				<-h.rec.Stopping()
				close(died)
			})
			h = newHarness(t, fake.Config{}, func(c *state.Config) {
				c.Fault = func(p string) {
					if p == point {
						die()
					}
				}
			})
			go func() {
				<-died
				h.rec2()
			}()
			v := h.create("papi")
			task := h.start("papi", "echo one\necho two\nlisten\nask tabs?\nwait gate\necho three\ndone well")
			said, err := h.message("hi", "")
			require.NoError(t, err)
			require.Equal(t, sentNow, said)
			q, _, err := h.AnswerQuestion(h.ctx(), service.AnswerQuestionRequest{ID: h.asked(task.ID).ID, Answer: "spaces"})
			require.NoError(t, err)
			require.Equal(t, fleet.QuestionAnswered, q.Status)
			if point == reconcile.FaultInterruptBefore || point == reconcile.FaultInterruptAfter {
				<-h.world.Reached("gate")
				stopped, _, _, err := h.StopTask(h.ctx(), "papi", "")
				require.NoError(t, err)
				require.Equal(t, fleet.TaskStopped, stopped.Status)
			} else {
				h.world.Release("gate")
				ended := h.end(task.ID)
				require.Equal(t, fleet.TaskCompleted, ended.Status, ended.Reason)
				require.Equal(t, "well", ended.Summary)
				require.Equal(t, "onetwohianswer: spacesthree", h.output(task.ID))
			}
			require.Equal(t, 1, h.world.Deliveries(task.ID))
			require.Equal(t, []string{"hi"}, h.world.Messages(task.ID))
			_, _, err = h.StopAgent(h.ctx(), "papi", "")
			require.NoError(t, err)
			_, _, err = h.StartAgent(h.ctx(), "papi", "")
			require.NoError(t, err)
			require.Len(t, h.world.Workspaces(), 1)
			gone, _, err := h.DeleteAgent(h.ctx(), "papi", "")
			require.NoError(t, err)
			require.Equal(t, v.UID, gone.UID)
			require.Empty(t, h.world.Workspaces())
			<-died
		})
	}
}
