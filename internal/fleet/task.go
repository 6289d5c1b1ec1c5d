package fleet

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// TaskStatus is the progress of a task. Completed, failed and stopped are final.
type TaskStatus string

// The statuses of a task.
const (
	TaskPending   TaskStatus = "pending"
	TaskRunning   TaskStatus = "running"
	TaskCompleted TaskStatus = "completed"
	TaskFailed    TaskStatus = "failed"
	TaskStopped   TaskStatus = "stopped"
)

// Ended reports whether the status is final.
func (s TaskStatus) Ended() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskStopped
}

// Source says who assigned a task.
type Source string

// The sources of tasks.
const (
	SourceAgent        Source = "agent"
	SourceHuman        Source = "human"
	SourceAIController Source = "ai_controller"
)

// Task is one unit of work for an agent.
type Task struct {
	ID          string
	AgentUID    string
	AgentName   string
	Owner       string
	SessionID   string // the conversation that it is a turn of; empty if none
	Description string
	Source      Source
	Status      TaskStatus
	Reason      string // why it failed or was stopped

	// SelfStarted means that the agent begins the task by itself, without a dispatch.
	SelfStarted bool

	Timeout    time.Duration // 0 means the server's default
	CreatedAt  time.Time
	StartedAt  time.Time // zero if not started
	EndedAt    time.Time // zero if not ended
	Dispatched time.Time // when Fleet began to give it to the agent; zero if it has not. Written before the call.
	Try        int       // 0 for the first try; incremented when checks failed and the agent tries again
	Cursor     string    // position of the run's output up to which the event log has it; in the place's notation
	OutputSize int64     // output in the event log, in bytes

	Waiting int // number of the agent's questions that wait for an answer
	// StalledAt is when the run was found to make no progress; zero if it does, or has ended. LastStep is its last
	// known step then.
	StalledAt time.Time
	LastStep  string

	// Terminal means that the run's output was read from the agent's terminal, as Output.Terminal says.
	Terminal bool

	// ConversationLost says why the task began a new conversation although its agent had one; empty if it did not.
	ConversationLost string

	// StopAsked is when a stop was requested, and StopReason by whom or why; zero if not requested.
	StopAsked  time.Time
	StopReason string

	// The run reported these at its end.
	Summary string
	// ChecksFailed means that the task failed because its checks did.
	ChecksFailed bool
	Reported     bool // the agent itself reported the end; false if it follows from the end of its run
	PayloadSize  int  // size before compression, in bytes; the store has the payload
	PayloadGap   Gap
	// PayloadRemoved means that the payload was removed after its retention; only Store.PrunePayloads sets it.
	PayloadRemoved bool
	ExitCode       *int
	CostUSD        float64
	Turns          int
	Usage          Usage

	Trace string // of the call that started it, a W3C traceparent; empty if it was not traced

	// These say that there are, or were, messages to the task, questions of its agent, and something that is known of its checks. Only the
	// store sets them, so that nobody looks for what is not there.
	HasMessages, HasQuestions, HasChecks bool

	Revision int64 // incremented by every write; set by the store
}

// Gap is where bytes are missing from a payload that exceeded its limit. The zero Gap means that it is complete.
type Gap struct {
	Offset int   // of the first byte after the gap, in the stored payload
	Size   int64 // number of missing bytes
}

// Active reports whether the task occupies its agent.
func (t *Task) Active() bool { return !t.Status.Ended() }

// Stalled reports whether the task's run makes no progress.
func (t *Task) Stalled() bool { return !t.StalledAt.IsZero() }

// MaxTitle is the longest title of a task, in characters.
const MaxTitle = 120

// Title returns the first non-blank line of the description, shortened.
func (t *Task) Title() string {
	for line := range strings.Lines(t.Description) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#!") {
			return Shorten(line, MaxTitle)
		}
	}
	return Shorten(strings.TrimSpace(t.Description), MaxTitle)
}

// These limit the texts of a task in lists, in characters.
const (
	MaxRowDescription = 200
	MaxRowSummary     = 500
)

// Excerpt returns the first characters of the description, as lists show it.
func (t *Task) Excerpt() string { return Shorten(t.Description, MaxRowDescription) }

// ShortHeadline returns the headline as lists show it.
func (t *Task) ShortHeadline() string { return Shorten(t.Headline(), MaxRowSummary) }

// Headline returns the summary of the task if it has one, else its title.
func (t *Task) Headline() string {
	if t.Summary != "" {
		return t.Summary
	}
	return t.Title()
}

// Event returns an event about the task. It has the task's status if the event changed it.
func (t *Task) Event(typ EventType, now time.Time, text string) *Event {
	e := &Event{
		Time: now, Type: typ, AgentUID: t.AgentUID, AgentName: t.AgentName, Owner: t.Owner, TaskID: t.ID, Text: text,
	}
	if typ == EventTaskCreated || typ == EventTaskEnded {
		e.Status = string(t.Status)
	}
	return e
}

// Run returns the task as its agent gets it.
func (t *Task) Run(again bool) Run {
	r := t.FirstRun()
	r.Again = again
	if t.Try > 0 { // each try has a run of its own
		r.TaskID, r.SelfStarted = fmt.Sprintf("%s-%d", t.ID, t.Try+1), false
	}
	return r
}

// FirstRun returns the run of the first try.
func (t *Task) FirstRun() Run {
	return Run{TaskID: t.ID, Prompt: t.Description, Timeout: t.Timeout, Started: t.StartedAt, Again: true, SelfStarted: t.SelfStarted}
}

// AddUsage adds what a run cost to what the task did.
func (t *Task) AddUsage(o Outcome) {
	t.CostUSD, t.Turns = t.CostUSD+o.CostUSD, t.Turns+o.Turns
	t.Usage.Model = cmp.Or(o.Usage.Model, t.Usage.Model)
	t.Usage.InputTokens += o.Usage.InputTokens
	t.Usage.OutputTokens += o.Usage.OutputTokens
	t.Usage.ToolCalls += o.Usage.ToolCalls
}
