package fleet

import (
	"strings"
	"time"
)

// TaskStatus says how far a task is. Completed, failed and stopped never change again.
type TaskStatus string

// The statuses of a task.
const (
	TaskPending   TaskStatus = "pending"
	TaskRunning   TaskStatus = "running"
	TaskCompleted TaskStatus = "completed"
	TaskFailed    TaskStatus = "failed"
	TaskStopped   TaskStatus = "stopped"
)

// Ended says whether the status is one that never changes again.
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
	SessionID   string // the conversation it is a turn of; empty: none
	Description string
	Source      Source
	Status      TaskStatus
	Reason      string // why it failed or was stopped

	// SelfStarted says that the agent begins the task by itself: it is not handed over.
	SelfStarted bool

	Timeout    time.Duration // 0: the server's own limit
	CreatedAt  time.Time
	StartedAt  time.Time // zero: not started
	EndedAt    time.Time // zero: not ended
	Dispatched time.Time // when Fleet set out to hand it to the agent; zero: not yet. Written before the act.
	Cursor     string    // how far the run's output is in the event log; the backend's own notation
	OutputSize int64     // bytes of output in the event log

	Waiting int // questions of the agent that wait for an answer
	// StalledAt is when the run was found to make no progress; zero: it does, or has ended. LastStep is the last that was
	// known of it then.
	StalledAt time.Time
	LastStep  string

	// StopAsked is when a stop was asked for, StopReason by whom or by what; zero: not asked.
	StopAsked  time.Time
	StopReason string

	// What the run reported at its end.
	Summary     string
	Reported    bool // the agent itself said how its task ended; false: the end of its run did
	PayloadSize int  // bytes before compression; the payload itself is in the store
	PayloadGap  Gap
	// PayloadRemoved says that the payload was removed, since its retention was over; only Store.PrunePayloads sets it.
	PayloadRemoved bool
	ExitCode       *int
	CostUSD        float64
	Turns          int
	Usage          Usage

	Revision int64 // grows with every write of the row; the store sets it
}

// Gap is where bytes are missing from a payload that was longer than its limit. The zero Gap means that none are.
type Gap struct {
	Offset int   // of the first byte after the gap, in the payload as it is kept
	Size   int64 // how many bytes are missing
}

// Active says whether the task keeps its agent busy.
func (t *Task) Active() bool { return !t.Status.Ended() }

// Stalled says whether the task's run makes no progress.
func (t *Task) Stalled() bool { return !t.StalledAt.IsZero() }

// MaxTitle is the longest title of a task, in characters.
const MaxTitle = 120

// Title is the first line of the description that says anything, shortened.
func (t *Task) Title() string {
	for line := range strings.Lines(t.Description) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#!") {
			return shorten(line, MaxTitle)
		}
	}
	return shorten(strings.TrimSpace(t.Description), MaxTitle)
}

// How much of its texts a list shows of a task, in characters.
const (
	MaxRowDescription = 200
	MaxRowSummary     = 500
)

// Excerpt returns the first characters of the description, as lists show it.
func (t *Task) Excerpt() string { return shorten(t.Description, MaxRowDescription) }

// ShortHeadline is the headline as lists show it.
func (t *Task) ShortHeadline() string { return shorten(t.Headline(), MaxRowSummary) }

// Headline is what a list shows of the task: its summary when it has one, else its title.
func (t *Task) Headline() string {
	if t.Summary != "" {
		return t.Summary
	}
	return t.Title()
}
