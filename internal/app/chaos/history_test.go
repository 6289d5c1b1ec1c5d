package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// verb is what a call did to an agent, or what its answer showed about the agent.
type verb string

const (
	verbStarted  verb = "started"  // a task was accepted
	verbBusy     verb = "busy"     // a task was refused, because the agent has another task
	verbStopped  verb = "stopped"  // a task was stopped
	verbIdle     verb = "idle"     // there was nothing to stop
	verbSeen     verb = "seen"     // an answer showed the agent, with a task or without a task
	verbFinished verb = "finished" // a task has ended
)

// action is an operation in the history of an agent. task is its task, or "" for none.
type action struct {
	agent string
	verb  verb
	task  string
}

// history records the answers that callers received from all servers of a store.
type history struct {
	begin time.Time

	mu        sync.Mutex
	ops       []porcupine.Operation
	calls     map[string]*outcomes      // by method
	attempts  map[string]*attempt       // by the task's tag
	agents    map[string]*agentRecord   // by name
	messages  map[string]*messageRecord // by text
	endSeen   map[string]int64          // when an answer first showed that a task had ended, by the task's id
	firstSeen map[string]int64          // when an answer first showed a task, by the task's id
	final     map[string]string         // the first final status of a task that an answer showed, by the task's id
	contracts []*contractRecord
	problems  []string
}

// attempt is a request to start a task. All of its retries share it.
type attempt struct {
	agent   string
	call    int64  // when the first request was sent
	task    string // "" if the task was not accepted, or if nobody knows whether it was
	refused bool   // it is certain that it was not accepted
}

func newHistory() *history {
	return &history{begin: time.Now(), calls: map[string]*outcomes{}, attempts: map[string]*attempt{}, agents: map[string]*agentRecord{}, messages: map[string]*messageRecord{}, endSeen: map[string]int64{}, firstSeen: map[string]int64{}, final: map[string]string{}}
}

// now returns the nanoseconds since the beginning of the history. All times of the history have this form.
func (h *history) now() int64 { return int64(time.Since(h.begin)) }

// addOperation records what a call between the times call and ret did or showed.
func (h *history) addOperation(client int, a action, call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: a, Call: call, Return: ret})
}

// outcomes counts the calls of a method.
type outcomes struct{ answered, refused, unknown int }

// countCall counts a call of the method by its outcome. err is the error of the call.
func (h *history) countCall(method string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.calls[method]
	if o == nil {
		o = &outcomes{}
		h.calls[method] = o
	}
	switch {
	case err == nil:
		o.answered++
	case reasonOf(err) != "":
		o.refused++
	default:
		o.unknown++
	}
}

func (h *history) addProblem(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// recordTask records that an answer at the given time showed the task with the status.
func (h *history) recordTask(task, status string, at int64) {
	if task == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.firstSeen[task]; !ok || at < t {
		h.firstSeen[task] = at
	}
	if !isFinal(status) {
		return
	}
	if t, ok := h.endSeen[task]; !ok || at < t {
		h.endSeen[task] = at
	}
	switch h.final[task] {
	case "":
		h.final[task] = status
	case status:
	default:
		h.problems = append(h.problems, fmt.Sprintf("task %s was %s and then %s", task, h.final[task], status))
	}
}

func isFinal(status string) bool {
	return status == "completed" || status == "failed" || status == "stopped"
}

// model describes which sequences of actions are possible for one agent. Its state is the agent's task, or "" if the
// agent has none.
var model = porcupine.Model{
	Partition: func(ops []porcupine.Operation) (parts [][]porcupine.Operation) {
		index := map[string]int{}
		for _, op := range ops {
			agent := op.Input.(action).agent //nolint:forcetypeassert // as added
			i, ok := index[agent]
			if !ok {
				i = len(parts)
				index[agent] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		current, a := state.(string), input.(action) //nolint:forcetypeassert // as added
		switch a.verb {
		case verbStarted:
			return current == "", a.task
		case verbBusy:
			return current != "", current
		case verbIdle:
			return current == "", current
		case verbStopped, verbSeen:
			return current == a.task, current
		case verbFinished:
			return current == a.task, ""
		}
		return false, current
	},
	DescribeOperation: func(input, _ any) string {
		a := input.(action) //nolint:forcetypeassert // as added
		return fmt.Sprintf("%s %.6s", a.verb, a.task)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%.6s", state) },
}

// explainImpossible describes where an impossible history first contradicts the model.
func explainImpossible(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, possible := range part {
			if len(possible) > len(longest) {
				longest = possible
			}
		}
	}
	done := map[porcupine.Operation]bool{}
	show := func(op porcupine.Operation) string {
		a := op.Input.(action) //nolint:forcetypeassert // as added
		return fmt.Sprintf("\n  %10.4f to %10.4f  %s %s %.8s", time.Duration(op.Call).Seconds(), time.Duration(op.Return).Seconds(), a.agent, a.verb, a.task)
	}
	var b strings.Builder
	b.WriteString("the last operations in a possible order:")
	for i, op := range longest {
		done[op] = true
		if i >= len(longest)-6 {
			b.WriteString(show(op))
		}
	}
	b.WriteString("\nthe next ones, in the order of their calls:")
	rest := slices.Clone(ops)
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	n := 0
	for _, op := range rest {
		if !done[op] && n < 12 {
			b.WriteString(show(op))
			n++
		}
	}
	return b.String()
}
