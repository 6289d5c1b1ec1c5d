package fleet

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// StepType says what a step shows.
type StepType string

// The types of steps. The comments name the fields that are set in addition to Agent and Parent.
const (
	StepText       StepType = "text"        // an agent wrote a text: Message, if the step is not output
	StepThinking   StepType = "thinking"    // the model thought: Message
	StepToolCall   StepType = "tool_call"   // a tool was called: ID, Name, Arguments
	StepToolResult StepType = "tool_result" // a tool answered: ID, Name, Result, IsError, Duration
	StepFileEdit   StepType = "file_edit"   // a tool call changed a file: ID, Path, Patch if it is known
	StepDenied     StepType = "denied"      // a tool call was denied: ID, Name, Message with the reason
	StepQuestion   StepType = "question"    // the agent asked people, or a question was answered: ID of the question
	StepRetry      StepType = "retry"       // a request to the model failed and is repeated: Retry
	StepLimit      StepType = "limit"       // a limit of a subscription is nearly or completely used up: Limit
	StepWindow     StepType = "window"      // the newest state of a limit of a subscription that has room: Limit
	StepCompaction StepType = "compaction"  // the conversation was summarised: Compaction
	StepTodoList   StepType = "todo_list"   // the agent's list of things to do: Items
	StepHook       StepType = "hook"        // a hook of the program ended: Name, Message with its output, IsError
	StepBackground StepType = "background"  // work in the background began or ended: ID, Name, Message, Status
	StepUsage      StepType = "usage"       // a request to the model was answered: Usage
	StepWarning    StepType = "warning"     // something does not work, for example an MCP server: Message

	// Only events have these types. The text of the event describes the step.
	StepMessage StepType = "message" // a message was sent to the agent
	StepNote    StepType = "note"    // anything else that happened to the task
)

// IsDetail reports whether people see a step of the type only on request, because another step or the output says most
// of it.
func (t StepType) IsDetail() bool {
	switch t {
	case StepText, StepThinking, StepToolResult, StepFileEdit, StepTodoList, StepHook, StepBackground, StepUsage, StepWindow:
		return true
	}
	return false
}

// Step is something that an agent did, or that happened to it while it worked. Its JSON form is Output.Data and
// Event.Data.
type Step struct {
	Type   StepType `json:"type"`
	Agent  string   `json:"agent,omitempty"`  // the agent of the run that took the step; empty for the only or main one
	Parent string   `json:"parent,omitempty"` // ID of the tool call whose subagent took the step

	ID        string          `json:"id,omitempty"` // of a tool call, or of work in the background
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // JSON; a text if the arguments were not JSON or were cut
	Result    string          `json:"result,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Duration  time.Duration   `json:"duration,omitempty"` // 0 if it is unknown
	Path      string          `json:"path,omitempty"`
	Patch     string          `json:"patch,omitempty"` // in the unified format, without file names
	Message   string          `json:"message,omitempty"`
	Status    string          `json:"status,omitempty"` // started, completed or stopped
	Items     []TodoItem      `json:"items,omitempty"`

	Retry      *RequestRetry `json:"retry,omitempty"`
	Limit      *UsageLimit   `json:"limit,omitempty"`
	Compaction *Compaction   `json:"compaction,omitempty"`
	Usage      *RequestUsage `json:"usage,omitempty"`

	Whole *Span `json:"whole,omitempty"` // set if a text of the step is shortened: where the whole step is
}

// Span is a part of a run's raw output, in bytes.
type Span struct {
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

// TodoItem is one item of an agent's list of things to do.
type TodoItem struct {
	Text   string `json:"text"`
	Status string `json:"status"` // pending, in_progress or completed
}

// RequestRetry is a request to a model that failed and is repeated.
type RequestRetry struct {
	Attempt int           `json:"attempt"`          // the attempt that failed, from 1
	Limit   int           `json:"limit,omitempty"`  // how many attempts there are; 0 if it is unknown
	Delay   time.Duration `json:"delay,omitempty"`  // until the next attempt
	Status  int           `json:"status,omitempty"` // HTTP status; 0 if there was no response
	Error   string        `json:"error,omitempty"`  // as the program names it
}

// UsageLimit is the state of a limit of a subscription.
type UsageLimit struct {
	Window      string    `json:"window,omitempty"` // as the program names it, for example five_hour
	Utilization float64   `json:"utilization"`      // used share, from 0 to 1
	Reached     bool      `json:"reached,omitempty"`
	ResetsAt    time.Time `json:"resets_at,omitzero"`
}

// Name returns the name of the window for people, such as "five hour".
func (l UsageLimit) Name() string {
	return strings.ReplaceAll(cmp.Or(l.Window, "unknown window"), "_", " ")
}

// Text returns the name of the window for use in a sentence, such as "five hour window".
func (l UsageLimit) Text() string {
	if l.Window == "" {
		return l.Name()
	}
	return l.Name() + " window"
}

// Compaction is a summary that replaced a conversation.
type Compaction struct {
	Trigger string `json:"trigger,omitempty"` // auto or manual
	Before  int64  `json:"before"`            // tokens
	After   int64  `json:"after"`
}

// RequestUsage is the usage of one request to a model.
type RequestUsage struct {
	Model      string  `json:"model,omitempty"`
	Input      int64   `json:"input"`                 // tokens, without those that the cache read or wrote
	CacheRead  int64   `json:"cache_read,omitempty"`  // tokens
	CacheWrite int64   `json:"cache_write,omitempty"` // tokens
	Output     int64   `json:"output"`                // tokens
	CostUSD    float64 `json:"cost_usd,omitempty"`    // 0 if it is unknown
	// Turn means that this is the sum of all requests of a turn. Otherwise the tokens of this one request also show how long the
	// conversation is.
	Turn          bool  `json:"turn,omitempty"`
	ContextTokens int64 `json:"context,omitempty"` // tokens in the conversation after the turn; 0 if they are unknown
	ContextWindow int64 `json:"window,omitempty"`  // tokens that fit into the conversation; 0 if they are unknown
}

// AllInput returns the number of tokens that the request read, with those of the cache.
func (u RequestUsage) AllInput() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// JSON returns the JSON form of the step, or nil if s is nil or its Arguments are not JSON.
func (s *Step) JSON() []byte {
	if s == nil {
		return nil
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return b
}

// ParseStep returns the step with the JSON form, or nil if the data is not a step.
func ParseStep(data []byte) *Step {
	var s Step
	if len(data) == 0 || json.Unmarshal(data, &s) != nil || s.Type == "" {
		return nil
	}
	return &s
}

// Step returns the step that the event reports, or nil if it reports none.
func (e *Event) Step() *Step {
	s := ParseStep(e.Data)
	switch {
	case s != nil && (s.Type != StepText || e.Type != EventTaskOutput):
	case e.Type == EventTaskOutput:
		text := &Step{Type: StepText}
		if s != nil {
			text.Agent = s.Agent
		}
		return text
	case e.Type == EventTaskMessage:
		return &Step{Type: StepMessage}
	case e.Type == EventTaskStep, e.Type == EventTaskCheck:
		return &Step{Type: StepNote}
	}
	return s
}

// StepEvents are the types of the events that report steps.
var StepEvents = []EventType{EventTaskOutput, EventTaskStep, EventTaskDetail, EventTaskMessage, EventTaskQuestion, EventTaskAnswer, EventTaskCheck}

// TaskStep is a step in the log of a task.
type TaskStep struct {
	Seq  int64 // position of its last event in the log
	Time time.Time
	Text string // the step in one line; for StepText, the text itself
	// Output means that Text is a piece of the run's output, which the next piece may continue.
	Output bool
	*Step
}
