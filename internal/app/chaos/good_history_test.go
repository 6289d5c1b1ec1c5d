package chaos

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// goodHistory returns a history without a problem: papi receives a message in task 1 and completes it, and is stopped in task 2.
// Meanwhile new-shared-1 is created and deleted, and new-2 is created and stays.
func goodHistory() (*history, *evidence) {
	h := newHistory()
	h.attempts = map[string]*attempt{
		"t000001": {agent: "papi", call: 10, task: "1"},
		"t000002": {agent: "papi", call: 25, refused: true},
		"t000003": {agent: "papi", call: 50}, // its caller received no answer
	}
	for i, a := range []action{{"papi", verbStarted, "1"}, {"papi", verbBusy, ""}, {"papi", verbSeen, "1"}, {"papi", verbIdle, ""}, {"papi", verbSeen, "2"}, {"papi", verbStopped, "2"}} {
		at := [][2]int64{{10, 20}, {25, 26}, {30, 31}, {45, 46}, {60, 61}, {70, 80}}[i]
		h.addOperation(i, a, at[0], at[1])
	}
	h.recordTask("1", "completed", 40)
	h.recordTask("2", "running", 61)
	h.recordTask("2", "stopped", 80)
	h.agents = map[string]*agentRecord{
		"new-shared-1": {created: true, deletionRequested: true, deleted: true},
		"new-2":        {created: true},
		"new-3":        {refused: true},
	}
	h.messages = map[string]*messageRecord{
		"m000001": {agent: "papi", task: "1", accepted: true},
		"m000002": {agent: "papi", task: "2", accepted: true}, // task 2 ended before papi read the message
		"m000003": {agent: "papi", refused: true},
	}
	e := &evidence{
		tasks:      []*fleetv1.Task{{Id: "1", AgentName: "papi", Status: fleetv1.Task_completed}, {Id: "2", AgentName: "papi", Status: fleetv1.Task_stopped}},
		agents:     map[string]bool{"papi": true, "new-2": true},
		runs:       map[string]int{"t000001": 1, "t000003": 1},
		delivered:  map[string]int{"m000001": 1},
		workspaces: map[string]int{"new-shared-1": 0},
		limits:     fleet.Limits{Agents: 3, RunningTasks: 1},
	}
	add := func(kind fleetv1.Event_Type, agent, task, status, text string) {
		e.log = append(e.log, &fleetv1.Event{Cursor: strconv.Itoa(len(e.log) + 1), Type: kind, AgentName: agent, TaskId: task, Status: status, Text: text})
	}
	add(fleetv1.Event_agent_created, "papi", "", "", "")
	add(fleetv1.Event_agent_created, "new-shared-1", "", "", "")
	add(fleetv1.Event_agent_created, "new-2", "", "", "")
	add(fleetv1.Event_task_created, "papi", "1", "", "echo tag=t000001")
	add(fleetv1.Event_task_started, "papi", "1", "", "")
	add(fleetv1.Event_task_output, "papi", "1", "", "tag=t000001\n")
	add(fleetv1.Event_task_message, "papi", "1", "", "m000001")
	add(fleetv1.Event_task_output, "papi", "1", "", "more\n")
	add(fleetv1.Event_task_ended, "papi", "1", "completed", "")
	add(fleetv1.Event_agent_deleted, "new-shared-1", "", "", "")
	add(fleetv1.Event_task_created, "papi", "2", "", "echo tag=t000003")
	add(fleetv1.Event_task_output, "papi", "2", "", "tag=t000003\n")
	add(fleetv1.Event_task_message, "papi", "2", "", "m000002")
	add(fleetv1.Event_task_step, "papi", "2", "", "a message was not delivered to the agent: too late")
	add(fleetv1.Event_task_ended, "papi", "2", "stopped", "")
	e.watched = map[string][]*fleetv1.Event{"gRPC": slices.Clone(e.log), "MCP": slices.Clone(e.log)}
	return h, e
}

// without returns the events without the event that has the cursor.
func without(events []*fleetv1.Event, cursor string) []*fleetv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e *fleetv1.Event) bool { return e.GetCursor() == cursor })
}

// replaceLog replaces the log and the events that watchers have received, and numbers the events from 1.
func (e *evidence) replaceLog(log []*fleetv1.Event) {
	e.log = nil
	for i, event := range log {
		e.log = append(e.log, &fleetv1.Event{
			Cursor: strconv.Itoa(i + 1), Type: event.GetType(), AgentName: event.GetAgentName(), TaskId: event.GetTaskId(), Status: event.GetStatus(), Text: event.GetText(),
		})
	}
	for name := range e.watched {
		e.watched[name] = e.log
	}
}

// TestChecks checks that each check finds its kind of problem in a history that has no other problem.
func TestChecks(t *testing.T) {
	t.Parallel()
	h, e := goodHistory()
	require.Empty(t, h.check(e).problems)
	require.NotEmpty(t, h.ops)
	for name, c := range map[string]struct {
		fault func(h *history, e *evidence)
		want  string
	}{
		"an acknowledged start is lost": {func(_ *history, e *evidence) {
			e.tasks = e.tasks[1:]
		}, `the acknowledged task 1 of papi is lost: the store has ""`},
		"a start is done twice": {func(h *history, e *evidence) {
			e.log[10].Text = "echo tag=t000001"
		}, "t000001 was started twice, as 1 and 2"},
		"a refused start is done": {func(h *history, _ *evidence) {
			h.attempts["t000003"].refused = true
		}, "t000003 was refused, and is task 2"},
		"a task runs twice": {func(_ *history, e *evidence) {
			e.runs["t000003"] = 2
		}, "task 2, which is stopped, was run 2 times"},
		"a task is completed without a run": {func(_ *history, e *evidence) {
			delete(e.runs, "t000001")
		}, "task 1, which is completed, was run 0 times"},
		"two tasks run at a time": {func(_ *history, e *evidence) {
			e.overlaps = []string{"papi.runs: t000003 17"}
		}, "a run began while another run was active: papi.runs: t000003 17"},
		"the log has two tasks of an agent": {func(_ *history, e *evidence) {
			e.replaceLog(append(append(slices.Clone(e.log[:8]), e.log[10], e.log[8]), e.log[11:]...))
		}, "the log has task 2 of papi while task 1 goes on"},
		"a task ends twice": {func(_ *history, e *evidence) {
			e.replaceLog(append(slices.Clone(e.log), e.log[14]))
		}, `the log has the end of task 2 of papi, which has ""`},
		"output after the end": {func(_ *history, e *evidence) {
			e.replaceLog(append(slices.Clone(e.log), e.log[11]))
		}, `the log has task_output of task 2 of papi, which has ""`},
		"a final state changes": {func(_ *history, e *evidence) {
			e.tasks[0].Status, e.log[8].Status = fleetv1.Task_failed, "failed"
		}, "task 1 was completed, and is failed"},
		"a final state changes while callers look": {func(h *history, _ *evidence) {
			h.recordTask("1", "failed", 90)
		}, "task 1 was completed and then failed"},
		"a final state differs from its event": {func(_ *history, e *evidence) {
			e.log[14].Status = "completed"
		}, `task 2 is stopped, and its event says "completed"`},
		"a task never ends": {func(_ *history, e *evidence) {
			e.tasks[1].Status = fleetv1.Task_running
		}, "task 2 is running at the end"},
		"the event of an end is missing": {func(_ *history, e *evidence) {
			e.replaceLog(e.log[:14])
		}, `task 2 is stopped, and its event says ""`},
		"the event of a start is missing": {func(_ *history, e *evidence) {
			e.replaceLog(without(e.log, "11"))
		}, "no event says that task 2 was created"},
		"an event is twice in the log": {func(_ *history, e *evidence) {
			e.log = slices.Insert(e.log, 5, e.log[4])
			e.watched = nil
		}, "the log has event 5 after event 5"},
		"a watcher misses an event": {func(_ *history, e *evidence) {
			e.watched["MCP"] = without(e.log, "7")
		}, "MCP watcher: event 6 is 8, and 7 in the log"},
		"a watcher misses the last event": {func(_ *history, e *evidence) {
			e.watched["gRPC"] = e.log[:14]
		}, "gRPC watcher: it got 14 of 15 events"},
		"a watcher gets an event twice": {func(_ *history, e *evidence) {
			e.watched["gRPC"] = slices.Insert(slices.Clone(e.log), 7, e.log[6])
		}, "gRPC watcher: event 7 is 7, and 8 in the log"},
		"a watcher gets an event that is taken back": {func(_ *history, e *evidence) {
			e.watched["gRPC"] = append(slices.Clone(e.log), &fleetv1.Event{Cursor: "16"})
		}, "gRPC watcher: event 16 is not in the log"},
		"a watcher gets another text": {func(_ *history, e *evidence) {
			e.watched["gRPC"][5] = &fleetv1.Event{Cursor: "6", Type: fleetv1.Event_task_output, TaskId: "1", Text: "tag=t000009\n"}
		}, `the log has event 6 at 00:00:00: papi task_output 1  "tag=t000001\n"`},
		"output is lost": {func(_ *history, e *evidence) {
			e.replaceLog(without(e.log, "8"))
		}, `the output of task 1, which is completed, is "tag=t000001" in the log`},
		"output is doubled": {func(_ *history, e *evidence) {
			e.replaceLog(slices.Insert(slices.Clone(e.log), 12, e.log[11]))
		}, `the output of task 2, which is stopped, is "tag=t000003tag=t000003" in the log`},
		"two servers work on an agent": {func(_ *history, e *evidence) {
			e.leaseProblems = []string{"r1 wrote output of papi without the lease on it"}
		}, "without the lease"},
		"too many tasks": {func(_ *history, e *evidence) {
			e.limits.RunningTasks = 0
		}, "1 tasks ran at a time, and the limit is 0"},
		"too many agents": {func(_ *history, e *evidence) {
			e.limits.Agents = 2
		}, "there were 3 agents, and the limit is 2"},
		"an acknowledged creation is lost": {func(_ *history, e *evidence) {
			e.replaceLog(without(e.log, "3"))
			delete(e.agents, "new-2")
		}, "the acknowledged agent new-2 is lost"},
		"a creation is done twice": {func(_ *history, e *evidence) {
			e.replaceLog(slices.Insert(slices.Clone(e.log), 3, e.log[2]))
		}, "new-2 was created 2 times"},
		"a refused creation is done": {func(h *history, _ *evidence) {
			*h.agents["new-2"] = agentRecord{refused: true}
		}, "new-2 was refused, and was created"},
		"an agent disappears without a deletion": {func(_ *history, e *evidence) {
			delete(e.agents, "new-2")
		}, "new-2 was created, never deleted, and is not there"},
		"a deleted agent comes back": {func(_ *history, e *evidence) {
			e.agents["new-shared-1"] = true
		}, "new-shared-1 is there after its deletion was acknowledged"},
		"an agent whose deletion is unknown comes back": {func(h *history, e *evidence) {
			h.agents["new-shared-1"].deleted = false
			e.agents["new-shared-1"] = true
		}, "new-shared-1: the log has 1 creations and 1 deletions, and it is listed: true"},
		"a deletion is done twice": {func(_ *history, e *evidence) {
			e.replaceLog(append(slices.Clone(e.log), e.log[9], e.log[9]))
		}, "new-shared-1 was deleted 3 times"},
		"a workspace is left behind": {func(_ *history, e *evidence) {
			e.workspaces["new-shared-1"] = 1
		}, "new-shared-1 has 1 workspaces, and the log has 1 creations and 1 deletions"},
		"a message is lost": {func(_ *history, e *evidence) {
			delete(e.delivered, "m000001")
		}, `the acknowledged "m000001" was neither delivered nor refused`},
		"a message is lost in a task that refused another": {func(h *history, _ *evidence) {
			h.messages["m000004"] = &messageRecord{agent: "papi", task: "2", accepted: true}
		}, "was neither delivered nor refused"},
		"a message is delivered twice": {func(_ *history, e *evidence) {
			e.delivered["m000001"] = 2
		}, `"m000001" was delivered 2 times`},
		"a message with an unknown outcome is delivered twice": {func(h *history, e *evidence) {
			h.messages["m000001"].accepted = false
			e.delivered["m000001"] = 2
		}, `"m000001" was delivered 2 times`},
		"a message is twice in the log": {func(_ *history, e *evidence) {
			e.replaceLog(slices.Insert(slices.Clone(e.log), 7, e.log[6]))
		}, `the log has "m000001" 2 times`},
		"a delivered message is not in the log": {func(_ *history, e *evidence) {
			e.replaceLog(without(e.log, "7"))
		}, `"m000001" was delivered, and is not in the log`},
		"a refused message is delivered": {func(h *history, _ *evidence) {
			*h.messages["m000001"] = messageRecord{agent: "papi", refused: true}
		}, `"m000001" was refused, and was delivered`},
		"a stale read": {func(h *history, _ *evidence) {
			h.addOperation(9, action{"papi", verbSeen, "1"}, 85, 86)
		}, "callers received answers that are impossible for an agent with one task at a time"},
		"a task is accepted while another runs": {func(h *history, _ *evidence) {
			h.addOperation(9, action{"papi", verbStarted, "9"}, 27, 28)
		}, "papi started 9"},
		"busy without a task": {func(h *history, _ *evidence) {
			h.addOperation(9, action{"papi", verbBusy, ""}, 85, 86)
		}, "papi busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := goodHistory()
			c.fault(h, e)
			problems := h.check(e).problems
			require.True(t, slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }), "%q", problems)
		})
	}
}
