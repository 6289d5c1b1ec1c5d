package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	fleetv1 "fleet/gen/fleet/v1"
)

// checkResult holds the problems that the checks have found, and how many items they have compared.
type checkResult struct {
	problems []string
	checks   []comparison
}

// comparison is how many items a check has compared.
type comparison struct {
	what  string // the items, for the report
	count int
	rare  bool // even a long run may have none
}

func (result *checkResult) addProblem(format string, args ...any) {
	result.problems = append(result.problems, fmt.Sprintf(format, args...))
}

// recordCompared records that a check has compared n items. In a long run, n must not be 0.
func (result *checkResult) recordCompared(what string, n int) {
	result.checks = append(result.checks, comparison{what: what, count: n})
}

// recordComparedRare is recordCompared for items that even a long run may not have.
func (result *checkResult) recordComparedRare(what string, n int) {
	result.checks = append(result.checks, comparison{what: what, count: n, rare: true})
}

// check compares the answers that callers received with the evidence.
func (h *history) check(e *evidence) *checkResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	result := &checkResult{problems: h.problems}
	result.checkWatchers(e)
	result.checkLog(e.log)
	result.checkLimits(e)
	result.checkLeases(e)
	tags := tagsOf(e.log)
	result.checkTasks(h, e, tags)
	result.checkRuns(e, tags)
	result.checkOutput(e, tags)
	h.checkStarts(result, e, tags)
	h.checkAgents(result, e)
	h.checkMessages(result, e)
	h.checkContracts(result, e)
	h.checkModel(result)
	return result
}

// tagsOf returns the tags of tasks, by the task's id.
func tagsOf(log []*fleetv1.Event) map[string]string {
	tags := map[string]string{}
	for _, e := range log {
		if e.GetType() == fleetv1.Event_task_created {
			tags[e.GetTaskId()] = taskTag.FindString(e.GetText())
		}
	}
	return tags
}

// checkWatchers checks that each watcher received every event of the log once, in the order of the log.
func (result *checkResult) checkWatchers(e *evidence) {
	n := 0
	for name, events := range e.watched {
		n += len(events)
		if problem := difference(name, events, e.log); problem != "" {
			result.addProblem("%s watcher: %s", name, problem)
		}
	}
	result.recordCompared("events that watchers got", n)
}

// difference describes the first difference between the events of the watcher and the log. It returns "" if they are
// equal. It does not compare texts over MCP, because MCP shortens long texts.
func difference(watcher string, events, log []*fleetv1.Event) string {
	for i, e := range events {
		switch {
		case i >= len(log):
			return fmt.Sprintf("event %s is not in the log", e.GetCursor())
		case e.GetCursor() != log[i].GetCursor():
			return fmt.Sprintf("event %d is %s, and %s in the log", i, e.GetCursor(), log[i].GetCursor())
		case e.GetType() != log[i].GetType() || e.GetTaskId() != log[i].GetTaskId() || watcher != "MCP" && e.GetText() != log[i].GetText():
			return fmt.Sprintf("it got %s, and the log has %s", describeEvent(e), describeEvent(log[i]))
		}
	}
	if len(events) < len(log) {
		return fmt.Sprintf("it got %d of %d events", len(events), len(log))
	}
	return ""
}

// checkLog checks the order of events: cursors increase, no task begins or ends twice, and an agent has one task at a time.
func (result *checkResult) checkLog(log []*fleetv1.Event) {
	current, ended := map[string]string{}, map[string]bool{} // the task of each agent, and the tasks that have ended
	last := int64(-1)
	for _, e := range log {
		seq, err := strconv.ParseInt(e.GetCursor(), 10, 64)
		if err != nil || seq <= last {
			result.addProblem("the log has event %s after event %d", e.GetCursor(), last)
		}
		last = seq
		id, agent := e.GetTaskId(), e.GetAgentName()
		switch e.GetType() {
		case fleetv1.Event_task_created:
			if current[agent] != "" {
				result.addProblem("the log has task %s of %s while task %s goes on", id, agent, current[agent])
			}
			current[agent] = id
		case fleetv1.Event_task_ended:
			if current[agent] != id || ended[id] {
				result.addProblem("the log has the end of task %s of %s, which has %q", id, agent, current[agent])
			}
			ended[id] = true
			delete(current, agent)
		case fleetv1.Event_task_output, fleetv1.Event_task_started, fleetv1.Event_task_message:
			if current[agent] != id {
				result.addProblem("the log has %s of task %s of %s, which has %q", e.GetType(), id, agent, current[agent])
			}
		}
	}
	result.recordCompared("events of the log", len(log))
}

// checkLeases checks that two servers never worked on an agent at the same time.
func (result *checkResult) checkLeases(e *evidence) {
	for _, p := range e.leaseProblems {
		result.addProblem("%s", p)
	}
	if e.leaseOwners > 0 {
		result.recordCompared("owners of leases", e.leaseOwners)
	}
}

// checkLimits checks that there were never more agents and running tasks than the limits allow.
func (result *checkResult) checkLimits(e *evidence) {
	agents, tasks, mostAgents, mostTasks := 0, 0, 0, 0
	for _, event := range e.log {
		switch event.GetType() {
		case fleetv1.Event_agent_created:
			agents++
		case fleetv1.Event_agent_deleted:
			agents--
		case fleetv1.Event_task_created:
			tasks++
		case fleetv1.Event_task_ended:
			tasks--
		}
		mostAgents, mostTasks = max(mostAgents, agents), max(mostTasks, tasks)
	}
	if mostAgents > e.limits.Agents {
		result.addProblem("there were %d agents, and the limit is %d", mostAgents, e.limits.Agents)
	}
	if mostTasks > e.limits.RunningTasks {
		result.addProblem("%d tasks ran at a time, and the limit is %d", mostTasks, e.limits.RunningTasks)
	}
	result.recordCompared(fmt.Sprintf("most agents at a time (limit %d)", e.limits.Agents), mostAgents)
	result.recordCompared(fmt.Sprintf("most tasks at a time (limit %d)", e.limits.RunningTasks), mostTasks)
}

// checkTasks checks that each task has ended, with the status that its last event and the answers to all callers show. Each task
// whose end a caller has seen must be in the store.
func (result *checkResult) checkTasks(h *history, e *evidence, tags map[string]string) {
	ends := map[string]string{}
	for _, event := range e.log {
		if event.GetType() == fleetv1.Event_task_ended {
			ends[event.GetTaskId()] = event.GetStatus()
		}
	}
	ids := map[string]bool{}
	for _, task := range e.tasks {
		id, status := task.GetId(), task.GetStatus().String()
		ids[id] = true
		if tags[id] == "" {
			result.addProblem("no event says that task %s was created", id)
		}
		switch was := h.final[id]; {
		case !isFinal(status):
			result.addProblem("task %s is %s at the end", id, status)
		case ends[id] != status:
			result.addProblem("task %s is %s, and its event says %q", id, status, ends[id])
		case was != "" && was != status:
			result.addProblem("task %s was %s, and is %s", id, was, status)
		}
	}
	for _, task := range e.contractTasks {
		ids[task.GetId()] = true
	}
	for id := range h.final {
		if !ids[id] {
			result.addProblem("task %s has ended and is not in the store", id)
		}
	}
	result.recordCompared("final states", len(e.tasks))
	result.recordCompared("final states that callers had seen", len(h.final))
}

// checkRuns checks that no task was run twice, that each completed task was run, and that no two tasks of an agent ran at the
// same time.
func (result *checkResult) checkRuns(e *evidence, tags map[string]string) {
	for _, overlap := range e.overlaps {
		result.addProblem("a run began while another run was active: %s", overlap)
	}
	n := 0
	for _, task := range e.tasks {
		runs, status := e.runs[tags[task.GetId()]], task.GetStatus().String()
		n += runs
		if runs > 1 || runs == 0 && status == "completed" {
			result.addProblem("task %s, which is %s, was run %d times", task.GetId(), status, runs)
		}
	}
	result.recordCompared("runs", n)
}

// checkOutput checks that a completed task has all of its output once, and that any other task has only the beginning of its
// output, or none. Output may be missing because a disk was full, if a step of the task reports that.
func (result *checkResult) checkOutput(e *evidence, tags map[string]string) {
	output, outputLost := map[string]string{}, map[string]bool{}
	for _, event := range e.log {
		switch id := event.GetTaskId(); {
		case event.GetType() == fleetv1.Event_task_output:
			output[id] += strings.TrimSpace(event.GetText())
		case event.GetType() == fleetv1.Event_task_step && reportsLostOutput(event.GetText()):
			outputLost[id] = true
		}
	}
	for _, task := range e.tasks {
		id := task.GetId()
		first, second := "tag="+tags[id], "more"
		got := strings.ReplaceAll(output[id], "\n", "")
		possible := []string{first + second}
		if task.GetStatus() != fleetv1.Task_completed {
			possible = append(possible, first, "")
		}
		if outputLost[id] {
			possible = append(possible, first, second, "")
		}
		if !slices.Contains(possible, got) {
			result.addProblem("the output of task %s, which is %s, is %q in the log: it printed %q; %s", id, task.GetStatus(), got, first+second, taskEvents(e.log, id))
		}
	}
	result.recordCompared("tasks with output", len(output))
	result.recordComparedRare("tasks whose output met a full disk", len(outputLost))
}

// describeEvent describes the event in one line, with the beginning of its text.
func describeEvent(e *fleetv1.Event) string {
	return fmt.Sprintf("event %s at %s: %s %s %s %s %.80q", e.GetCursor(), e.GetTime().AsTime().Format(time.TimeOnly), e.GetAgentName(), e.GetType(), e.GetTaskId(), e.GetStatus(), e.GetText())
}

// reportsLostOutput reports whether the step says that output was lost because a disk was full: the disk of the store or the
// disk of the agent's machine.
func reportsLostOutput(step string) bool {
	return strings.Contains(step, "output is not kept") || strings.Contains(step, "the output could not be kept")
}

// taskEvents describes all events of the task in the log.
func taskEvents(log []*fleetv1.Event, id string) string {
	var b strings.Builder
	for _, e := range log {
		if e.GetTaskId() == id {
			b.WriteString("\n  " + describeEvent(e))
		}
	}
	return b.String()
}

// checkStarts checks that each accepted request to start a task has started one task, and that each refused request has
// started none. It adds the ends of tasks to the history, and also the starts whose callers did not learn the outcome.
func (h *history) checkStarts(result *checkResult, e *evidence, tags map[string]string) {
	byTag := map[string]string{}
	for _, task := range e.tasks {
		tag := tags[task.GetId()]
		if byTag[tag] != "" {
			result.addProblem("%s was started twice, as %s and %s", tag, byTag[tag], task.GetId())
		}
		byTag[tag] = task.GetId()
	}
	end, accepted, unknown := h.now(), 0, 0
	for tag, a := range h.attempts {
		id := byTag[tag]
		switch {
		case a.task != "":
			if accepted++; a.task != id {
				result.addProblem("the acknowledged task %s of %s is lost: the store has %q", a.task, a.agent, id)
			}
		case a.refused && id != "":
			result.addProblem("%s was refused, and is task %s", tag, id)
		case !a.refused:
			unknown++
		}
		if id == "" {
			continue
		}
		if a.task == "" { // the caller does not know whether the server accepted the task
			ret := end
			if at, ok := h.firstSeen[id]; ok {
				ret = at
			}
			h.ops = append(h.ops, porcupine.Operation{Input: action{a.agent, verbStarted, id}, Call: a.call, Return: ret})
		}
		ret := end
		if at, ok := h.endSeen[id]; ok {
			ret = at
		}
		h.ops = append(h.ops, porcupine.Operation{Input: action{a.agent, verbFinished, id}, Call: a.call, Return: ret})
	}
	result.recordCompared("starts that were acknowledged", accepted)
	result.recordComparedRare("starts without an answer to the caller", unknown)
}

// checkAgents compares the answers that callers received about agents with the log, the agents that exist and their
// workspaces.
func (h *history) checkAgents(result *checkResult, e *evidence) {
	created, deleted := map[string]int{}, map[string]int{}
	for _, event := range e.log {
		switch event.GetType() {
		case fleetv1.Event_agent_created:
			created[event.GetAgentName()]++
		case fleetv1.Event_agent_deleted:
			deleted[event.GetAgentName()]++
		}
	}
	creations, deletions := 0, 0
	for name, record := range h.agents {
		if record.created {
			creations++
		}
		if record.deleted {
			deletions++
		}
		exists := e.agents[name]
		switch {
		case created[name] > 1:
			result.addProblem("%s was created %d times", name, created[name])
		case record.created && created[name] == 0:
			result.addProblem("the acknowledged agent %s is lost", name)
		case record.refused && created[name] > 0:
			result.addProblem("%s was refused, and was created", name)
		case deleted[name] > created[name]:
			result.addProblem("%s was deleted %d times", name, deleted[name])
		case record.deleted && (exists || deleted[name] == 0):
			result.addProblem("%s is there after its deletion was acknowledged", name)
		case record.created && !record.deletionRequested && !exists:
			result.addProblem("%s was created, never deleted, and is not there", name)
		case exists != (created[name] > deleted[name]):
			result.addProblem("%s: the log has %d creations and %d deletions, and it is listed: %t", name, created[name], deleted[name], exists)
		}
		if n, shared := e.workspaces[name]; shared && n != created[name]-deleted[name] {
			result.addProblem("%s has %d workspaces, and the log has %d creations and %d deletions", name, n, created[name], deleted[name])
		}
	}
	result.recordCompared("creations that were acknowledged", creations)
	result.recordCompared("deletions that were acknowledged", deletions)
}

// checkMessages checks that no message was delivered twice, that no refused message was delivered, and that each acknowledged
// message was delivered, or that a step of its task says that it was too late.
func (h *history) checkMessages(result *checkResult, e *evidence) {
	logged := map[string]int{} // how often the log has a message, by its text
	late := map[string]int{}   // how many messages came too late, by task
	for _, event := range e.log {
		switch event.GetType() {
		case fleetv1.Event_task_message:
			logged[event.GetText()]++
		case fleetv1.Event_task_step:
			if strings.Contains(event.GetText(), "a message was not delivered") {
				late[event.GetTaskId()]++
			}
		}
	}
	accepted := 0
	for text, m := range h.messages {
		n := e.delivered[text]
		switch {
		case n > 1:
			result.addProblem("%q was delivered %d times", text, n)
		case logged[text] > 1:
			result.addProblem("the log has %q %d times", text, logged[text])
		case n > logged[text]:
			result.addProblem("%q was delivered, and is not in the log", text)
		case m.refused && n > 0:
			result.addProblem("%q was refused, and was delivered", text)
		}
		if !m.accepted {
			continue
		}
		accepted++
		if n == 0 {
			if late[m.task]--; late[m.task] < 0 {
				result.addProblem("the acknowledged %q was neither delivered nor refused", text)
			}
		}
	}
	result.recordCompared("messages that were acknowledged", accepted)
	result.recordCompared("messages that agents got", len(e.delivered))
}

// checkModel checks that the recorded operations are possible for agents with one task at a time. checkStarts must have added the
// last ones.
func (h *history) checkModel(result *checkResult) {
	for _, ops := range model.Partition(h.ops) {
		if outcome, info := porcupine.CheckOperationsVerbose(model, ops, operationTimeout); outcome != porcupine.Ok {
			result.addProblem("callers received answers that are impossible for an agent with one task at a time (%s): %s", outcome, explainImpossible(ops, info))
		}
	}
	result.recordCompared("operations in the model", len(h.ops))
}
