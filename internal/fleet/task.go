package fleet

import (
	"encoding/json"
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

// EndText returns how a task with the final status has ended, for use in a sentence.
func (s TaskStatus) EndText() string {
	if s == TaskStopped {
		return "was stopped"
	}
	return "has " + string(s)
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
	AgentUID    string // empty while it waits for an agent of a pool or a role
	AgentName   string
	Owner       string
	Project     string // of a task that is inserted without an agent; reads do not set it
	SessionID   string // the session that the task is a turn of; empty if the task does not belong to a session
	Description string
	Source      Source
	Status      TaskStatus
	Reason      string // why it failed or was stopped

	// SelfStarted means that the agent begins the task by itself, without a dispatch.
	SelfStarted bool

	Timeout      time.Duration // time limit of the run, counted from StartedAt; always set
	Options      TaskOptions
	Labels       Labels // its own labels, and those with other keys that its agent had when it started
	RetryOf      string // id of the task that this one repeats; empty if it is not a retry
	ParentID     string // id of the task whose agent has delegated this one; empty if no agent has
	RootID       string // id of the root of its tree; empty for a root
	Delegation   Delegation
	CreatedAt    time.Time
	StartedAt    time.Time // zero if not started
	EndedAt      time.Time // zero if not ended
	DispatchedAt time.Time // when Fleet began to dispatch it to the agent, written before the call; zero if it has not begun
	Try          int       // 0 for the first try; incremented each time the task becomes pending again after a run, for example after failed checks
	Cursor       string    // the event log has the run's output up to this position; in the place's notation
	OutputSize   int64     // size of the output in the event log, in bytes

	OpenQuestions int // number of the agent's questions that wait for an answer
	// StalledAt is when Fleet found that the run makes no progress; zero if it makes progress or has ended. LastStep is the
	// last known step at that time.
	StalledAt time.Time
	LastStep  string
	// CollectingAt is when Fleet began to collect the work of the run, which has ended; zero if Fleet is not collecting it, or if
	// that takes little time.
	CollectingAt time.Time

	// Terminal means that the run's output was read from the agent's terminal, as Output.Terminal says.
	Terminal bool

	// ConversationLost says why the task began a new conversation although its agent had one; empty if it did not.
	ConversationLost string

	// StopRequestedAt is when a stop of the run was requested; zero if none was. StopReason says who requested it, or why. See Stopping.
	StopRequestedAt time.Time
	StopReason      string

	// The fields below describe the end of the run. Fleet also updates CostUSD, Turns, Usage and Spending while it runs.
	Summary     string
	ReasonCode  ReasonCode
	RetryAt     time.Time       // when the cause of a failure ends; zero if that is not known
	Reported    bool            // the agent itself reported the result; false if Fleet derived it from the end of the run
	Output      json.RawMessage // matches Options.OutputSchema; nil if the task has no schema or has not completed
	PayloadSize int             // size of the payload before compression, in bytes; the store has the payload
	PayloadGap  Gap
	// PayloadRemoved means that the payload was removed after its retention period. Only Store.Prune sets it.
	PayloadRemoved bool
	ExitCode       *int
	CostUSD        float64
	Turns          int
	Usage          Usage
	Spending       Spending

	Trace string // W3C traceparent of the call that started the task; empty if that call was not traced

	// These report whether the store has, or had, messages, questions or check results of the task. Only the store sets them.
	// If one is false, a read would find nothing.
	HasMessages, HasQuestions, HasChecks bool

	Landing *Landing // of its work; set only when tasks are listed or shown

	Revision int64 // incremented by every write; set by the store
}

// Gap is where bytes are missing from a payload that exceeded its limit. The zero Gap means that it is complete.
type Gap struct {
	Offset int   // of the first byte after the gap, in the stored payload
	Size   int64 // number of missing bytes
}

// Running reports whether the task occupies its agent.
func (t *Task) Running() bool { return t.Status == TaskRunning }

// Resumes reports whether the task's run continues one that was interrupted because a budget was used up.
func (t *Task) Resumes() bool { return t.Try > 0 && t.Try == t.Spending.HeldTry }

// Stopping reports whether a stop was requested that ends the task. An interruption because a budget is used up is not such a stop if
// the task may go on later.
func (t *Task) Stopping() bool {
	r := t.Spending.Reserve
	return !t.StopRequestedAt.IsZero() && (r == nil || r.Breach != BreachHold && r.Breach != BreachAsk)
}

// Active reports whether the task has not ended.
func (t *Task) Active() bool { return !t.Status.Ended() }

// Stalled reports whether the task's run makes no progress.
func (t *Task) Stalled() bool { return !t.StalledAt.IsZero() }

// Collecting reports whether Fleet collects the work of the task's run, which has ended.
func (t *Task) Collecting() bool { return !t.CollectingAt.IsZero() }

// MaxTitle is the longest title of a task, in characters.
const MaxTitle = 120

// Title returns the first line of the description that is neither blank nor a #! line, shortened to MaxTitle. It leaves out the # of a
// heading, or of a comment for a shell.
func (t *Task) Title() string {
	for line := range strings.Lines(t.Description) {
		if strings.HasPrefix(line, "#!") {
			continue
		}
		if line = strings.TrimSpace(strings.TrimLeft(line, "#")); line != "" {
			return Shorten(line, MaxTitle)
		}
	}
	return Shorten(strings.TrimSpace(t.Description), MaxTitle)
}

// Slug returns the words of the title as a part of a name: lower-case ASCII letters and digits, with hyphens between words.
func (t Task) Slug() string {
	words := strings.FieldsFunc(strings.ToLower(t.Title()), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(words, "-")
}

// These limit the texts of a task in lists, in characters.
const (
	MaxRowDescription = 200
	MaxRowSummary     = 500
)

// Excerpt returns the beginning of the description for lists.
func (t *Task) Excerpt() string { return Shorten(t.Description, MaxRowDescription) }

// ShortHeadline returns the beginning of the headline for lists.
func (t *Task) ShortHeadline() string { return Shorten(t.Headline(), MaxRowSummary) }

// Headline returns the summary of the task. If there is none and the task has not completed, it returns the title. A completed
// task may have no summary, because its agent may have had nothing to say.
func (t *Task) Headline() string {
	if t.Summary != "" || t.Status == TaskCompleted {
		return t.Summary
	}
	return t.Title()
}

// shownIDLength is how much of a task's id people see in texts.
const shownIDLength = 8

// Ref names the task in texts for people.
func (t *Task) Ref() string {
	return fmt.Sprintf("%s (%q)", t.ID[:min(len(t.ID), shownIDLength)], t.Title())
}

// Failure returns how the task ended without success, and why, for the end of a sentence: "failed: REASON" or "was stopped by NAME".
func (t *Task) Failure() string {
	text := "failed"
	if t.Status == TaskStopped {
		text = "was stopped"
		if byWhom, ok := strings.CutPrefix(t.Reason, "stopped "); ok { // by somebody
			return text + " " + byWhom
		}
	}
	if t.Reason == "" {
		return text
	}
	return text + ": " + t.Reason
}

// Event returns an event about the task. The event has the task's status if it is about its creation or its end.
func (t *Task) Event(typ EventType, now time.Time, text string) *Event {
	e := &Event{
		Time: now, Type: typ, AgentUID: t.AgentUID, AgentName: t.AgentName, Owner: t.Owner, TaskID: t.ID, Text: text,
	}
	if typ == EventTaskCreated || typ == EventTaskEnded {
		e.Status = string(t.Status)
	}
	return e
}

// Run returns the run of the task's current try, as the agent gets it. Its Again is set, because the run may have been dispatched before.
func (t *Task) Run() Run {
	r := t.FirstRun()
	if t.Try > 0 { // each try has a run of its own
		r.TaskID, r.SelfStarted = fmt.Sprintf("%s-%d", t.ID, t.Try+1), false
	}
	return r
}

// FirstRun returns the run of the first try. Its Again is set, as in the result of Run.
func (t *Task) FirstRun() Run {
	return Run{TaskID: t.ID, Prompt: t.Description, Timeout: t.Timeout, StartedAt: t.StartedAt, Again: true, SelfStarted: t.SelfStarted, Options: t.Options}
}
