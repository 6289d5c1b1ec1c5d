package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
)

// queueTask queues a task, and returns its id.
func (s *server) queueTask(t *testing.T, r *fleetv1.QueueTaskRequest) string {
	t.Helper()
	queued, err := s.api.QueueTask(t.Context(), r)
	require.NoError(t, err)
	return queued.GetTask().GetId()
}

// TestQueue queues tasks and follows them in the room Queue: their order, why they wait, and their starts. In this room it changes
// their priorities, holds, releases and stops tasks, and resumes the fleet.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/")
	b.press("Queue")
	for _, text := range []string{"No task waits", "fleet task queue AGENT", "No pools", "fleet pool create NAME", "No schedules", "fleet schedule create NAME", "No budgets", "fleet budget set NAME"} {
		b.waitForText(text)
	}

	s.createAgent(t, "papi")
	running := s.startTask(t, "papi", "until [ -e go ]; do sleep 0.1; done")
	last := s.queueTask(t, &fleetv1.QueueTaskRequest{AgentName: "papi", TaskDescription: "# " + hostileText})
	s.queueTask(t, &fleetv1.QueueTaskRequest{AgentName: "papi", TaskDescription: "# not before noon", NotBefore: timestamppb.New(time.Now().AddDate(0, 0, 30)), Priority: new(int32(-5))})
	first := s.queueTask(t, &fleetv1.QueueTaskRequest{AgentName: "papi", TaskDescription: "# urgent\nuntil [ -e urgent ]; do sleep 0.1; done", Priority: new(int32(10))})
	b.waitForRows("Queue", "1 urgent papi", "2 "+hostileText, "3 not before noon")
	require.False(t, eval[bool](b, `'owned' in window`))
	b.waitForText("3 tasks wait: ")
	b.waitForText(`agent busy: agent "papi" works on `)
	b.waitForText("behind: ")
	b.waitForText(", in 29 days")
	require.NoError(t, b.waitUntil(`() => document.querySelector('header nav').innerText.includes('3')`))

	b.fill("Priority of urgent", "-9")
	waitForPosition := func(text, at string) {
		t.Helper()
		require.NoError(t, b.waitUntil(`(text, at) => [...document.querySelectorAll('[aria-label="Queue"] tr')].find(r => r.innerText.includes(text))?.innerText.trim().startsWith(at)`, text, at))
	}
	waitForPosition("urgent", "3")
	eval[bool](b, `(() => {
		const row = text => [...document.querySelectorAll('[aria-label="Queue"] tr')].find(r => r.innerText.includes(text))
		row('urgent').dispatchEvent(new DragEvent('dragstart', {bubbles: true}))
		row('<').dispatchEvent(new DragEvent('drop', {bubbles: true}))
		return true
	})()`)
	waitForPosition("urgent", "1")

	b.press("Hold urgent")
	b.waitForText("held: ")
	b.waitForRows("Queue", "1 urgent papi held", "2 "+hostileText, "3 not before noon")
	b.press("Release urgent")
	b.waitUntilGone("held: ")
	b.press("Stop not before noon")
	b.press("Yes")
	b.waitForRows("Queue", "1 urgent papi agent busy", "2 "+hostileText)

	_, err := s.api.PauseFleet(t.Context(), &fleetv1.PauseFleetRequest{Reason: "the database is upgraded"})
	require.NoError(t, err)
	b.waitForText("has paused the fleet")
	b.waitForText("the database is upgraded")
	b.press("Resume")
	b.waitUntilGone("has paused the fleet")

	s.createFile(t, "papi", "go")
	s.waitForEnd(t, running)
	b.waitForRows("Queue", "1 "+hostileText)
	b.goTo("/agents/papi")
	b.waitForText("busy")
	b.goTo("/tasks/" + last)
	b.waitForText("It waits in the queue.")
	b.press("queue")
	s.createFile(t, "papi", "urgent")
	s.waitForEnd(t, first)
	s.waitForEnd(t, last)
	b.waitForText("No task waits")
}

// TestQueueDoesNotOccupy queues a task that does not start. Its agent must stay idle on the page.
func TestQueueDoesNotOccupy(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	b := openAt(t, s.home, "/")
	b.waitForText("papi")
	id := s.queueTask(t, &fleetv1.QueueTaskRequest{AgentName: "papi", TaskDescription: "until [ -e go ]; do sleep 0.1; done", Hold: true})
	require.NoError(t, b.waitUntil(`() => document.querySelector('header nav').innerText.includes('1')`)) // the event has arrived
	waitForStatus := func(status string) {
		require.NoError(t, b.waitUntil(`status => document.querySelector('[role=cell].status')?.innerText.includes(status)`, status), status)
	}
	waitForStatus("idle")
	_, err := s.api.ReleaseTask(t.Context(), &fleetv1.ReleaseTaskRequest{TaskId: id})
	require.NoError(t, err)
	b.waitForText("until [ -e go ]")
	waitForStatus("busy")
	s.createFile(t, "papi", "go")
	s.waitForEnd(t, id)
	waitForStatus("idle")
	b.waitForText("until [ -e go ]") // the last thing that the agent did
}

// TestPoolsAndSchedules shows a pool whose task is held, and a schedule, and follows their changes.
func TestPoolsAndSchedules(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/queue")
	b.waitForText("No schedules")
	_, err := s.api.CreatePool(t.Context(), &fleetv1.CreatePoolRequest{Name: "web", Project: "shell", MaxAgents: new(int32(2))})
	require.NoError(t, err)
	b.waitForRows("Pools", "web shell coder 0 0 0 2 0 ready")
	id := s.queueTask(t, &fleetv1.QueueTaskRequest{Pool: "web", TaskDescription: "# a task of the pool", Hold: true})
	b.waitForRows("Queue", "1 a task of the pool pool:web held")
	b.waitForRows("Pools", "web shell coder 0 0 0 2 1 ready")
	b.goTo("/tasks/" + id)
	b.waitForText("It waits in the queue.")
	b.press("Stop")
	b.press("Yes")
	b.waitForText("stopped")

	b.goTo("/queue")
	b.waitForText("No schedules")
	_, err = s.api.CreateSchedule(t.Context(), &fleetv1.CreateScheduleRequest{
		Name: "nightly", Cron: "0 3 * * *", TimeZone: "Europe/Berlin",
		Task: &fleetv1.QueueTaskRequest{Pool: "web", TaskDescription: "# update"},
	})
	require.NoError(t, err)
	b.waitForRows("Schedules", "nightly 0 3 * * *, Europe/Berlin in ")
	_, err = s.api.UpdateSchedule(t.Context(), &fleetv1.UpdateScheduleRequest{Name: "nightly", Paused: new(true)})
	require.NoError(t, err)
	b.waitForRows("Schedules", "nightly 0 3 * * *, Europe/Berlin paused update")
}

// TestBudgets shows budgets as bars, and follows their changes.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/queue")
	b.waitForText("No budgets")
	set := func(limit float64) {
		_, err := s.api.SetBudget(t.Context(), &fleetv1.SetBudgetRequest{
			Name: "day", Scope: "project", Value: "shell", Window: "day", LimitUsd: &limit, LimitTokens: new(5000.0), Unpriced: "allow",
		})
		require.NoError(t, err)
	}
	set(2)
	b.waitForRows("Budgets", "day project shell $0.00 spent, $0.00 reserved, $2.00 left of $2.00 a day 0 tokens spent, 0 tokens reserved, 5,000 tokens left of 5,000 tokens a day in ")
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", "until [ -e go ]; do sleep 0.1; done") // it reserves a quarter of the budget
	b.waitForRows("Budgets", "day project shell $0.00 spent, $0.50 reserved, $1.50 left of $2.00 a day")
	reserved := `() => { const meter = document.querySelector('[role=meter][aria-label="day, money"]')
		return meter.getAttribute('aria-valuenow') + ' of ' + meter.getAttribute('aria-valuemax') + ', ' +
			Math.round(100 * meter.querySelector('.reserved').offsetWidth / meter.clientWidth) + '%' }`
	require.Equal(t, "0.5 of 2, 25%", eval[string](b, "("+reserved+")()"))
	set(0.6)
	b.waitForRows("Budgets", "day project shell $0.00 spent, $0.50 reserved, $0.10 left of $0.60 a day")
	require.Equal(t, "0.5 of 0.6, 83%", eval[string](b, "("+reserved+")()"))
	s.createFile(t, "papi", "go")
	s.waitForEnd(t, id)
	b.waitForRows("Budgets", "day project shell $0.00 spent, $0.00 reserved, $0.60 left of $0.60 a day")
}

// TestCredentials shows a credential of the configuration in the room Queue. The room Attention must not mention credentials while
// none is held.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *app.Config) {
		cfg.Credentials = []fleet.CredentialSetting{{Name: "team-max", KeepFree: 20}}
		cfg.Local.Projects[0].Credential = "team-max"
	})
	b := openAt(t, s.home, "/queue")
	b.waitForRows("Credentials", "team-max ok the queue leaves 20% to people 0 agents, 0 busy")
	b.goTo("/attention")
	b.waitForText("No agent waits for an answer")
	b.waitUntilGone("Credentials that are held")
}
