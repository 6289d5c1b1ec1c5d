package fleet

import (
	"encoding/json"
	"time"
)

// Run is a task, or one try of it, in the form that its agent gets.
type Run struct {
	TaskID    string
	Prompt    string
	Timeout   time.Duration // the host ends the run after this time, even if Fleet is down; always set
	StartedAt time.Time
	Again     bool // an earlier Dispatch of this run may have been interrupted by a crash
	// SelfStarted means that the agent begins the run by itself: its project has Project.SpecIsTask set, and Prompt is
	// its spec.
	SelfStarted bool
	// Options are options of the task for the agent's program. The place supports them, see Optioner. Only Dispatch gets them.
	Options TaskOptions
	// Attachments are files of the task, which the agent can read until the run ends. Only Dispatch gets them.
	Attachments []Attachment
	// Feedback tells the agent why it gets another try of the task, for example which checks failed, and the results of delegated
	// tasks. If the agent remembers its conversation, Feedback is the next turn; otherwise it is added to Prompt. Only Dispatch gets it.
	Feedback string
	// Continues means that the agent has a conversation that the run continues. A runner that has lost it, for example
	// with the agent's workspace, begins a new one and reports that with Output.ConversationLost.
	Continues bool
	// AllowedRules are rules for calls that people have allowed before, see AllowedRule. Only Dispatch gets them.
	AllowedRules []string
	// Messages are the messages that the run has received so far, oldest first. Follow and Send get them.
	Messages []Message
	// Confirmed means that the message is only for a program that confirms what it reads. For another program, Send returns
	// UNIMPLEMENTED. Only Send gets it.
	Confirmed bool
	// Conversation names the conversation that the run continues, or begins if the agent has none of that name. If it is empty,
	// the run continues the one conversation of all runs without a name. Only Dispatch gets it.
	Conversation string
	// Brief is a text of Fleet itself for the agent, for example about how to delegate tasks. It belongs to the instructions. A
	// program that takes no instructions does not get it. Only Dispatch gets it.
	Brief string
	// Linger is how long an interrupted run may wait for the response to a request to its model; 0 means the host's default.
	// A run that is killed does not wait. Only Interrupt gets it.
	Linger time.Duration
	// Allowance limits the money and the tokens that the run uses; zero: no limit. When a program that keeps within allowances has
	// used it up, it begins no request to its model until AllowanceSetter.SetAllowance raises it. Only Dispatch and SetAllowance get it.
	Allowance Amount
	// FleetEndpoint is how an agent outside this process reaches Fleet, to report its result, to run subagents or to delegate
	// tasks; nil if it does none of that. Only Dispatch gets it.
	FleetEndpoint *ServerEndpoint
}

// ServerEndpoint is how an agent outside this process reaches Fleet: the address of an MCP endpoint and a token that is valid
// only for this agent, and only while its task runs. The token is a secret: it goes into a file that only the agent can
// read.
type ServerEndpoint struct {
	URL   string
	Token string
}

// Output is a piece of a run's output. An Output without Text and Data only shows that the run makes progress.
type Output struct {
	Cursor string // position after it
	IsStep bool   // a step of the agent (a tool that it used), not its text
	Text   string // valid UTF-8 without NUL: the runner repairs what an agent writes, and no later code does
	// Data is the same for programs: the JSON form of a Step; nil if the place has only the text.
	Data []byte
	// RunningToolCalls is the number of tool calls that are running after this output; 0 if it is not known. A run with running tool
	// calls is not stalled.
	RunningToolCalls int
	// Terminal means that the text was read from the agent's terminal. Long lines may be broken, and the text may
	// contain parts of the screen.
	Terminal bool
	// ConversationLost says why the run began a new conversation although the agent had one; empty if it did not. Text says
	// the same for people.
	ConversationLost string
	// Question is set if the agent has asked a question or a question has changed. All other fields are then empty. The
	// question's ID is the runner's. Status, Kind, Text, Tool, Input, Options, AskedAt and ExpiresAt are set; if the question
	// was answered, also Answer, Message, AnsweredBy and AnsweredAt. Each Follow reports all open questions of the run,
	// whatever its cursor, because the cursor does not count questions.
	Question *Question
}

// OutputPage is a part of a run's raw output, byte for byte.
type OutputPage struct {
	Data []byte
	// Offset is where Data begins. It is greater than the requested offset if the bytes there are missing, and at most Size.
	Offset int64
	Size   int64 // how many bytes the run has written so far, including the missing bytes
	// GapOffset is the offset of the missing bytes, and GapSize is their number; 0 means that no bytes are missing. Data is
	// either before or after the gap.
	GapOffset, GapSize int64
}

// Outcome is how a run ended.
type Outcome struct {
	Status   TaskStatus // completed, failed or stopped
	Reason   string     // why it failed; not empty then
	Summary  string     // the agent's report, for people
	Reported bool       // the agent reported success or failure, with agent_complete or a marker
	Payload  []byte     // the complete result, byte for byte; nil if the run has none
	Gap      Gap        // where bytes of Payload are missing, because the result exceeded the limit
	EndedAt  time.Time  // when the run ended; zero if its host does not know
	ExitCode *int       // of the agent's program; nil if it has none
	CostUSD  float64
	// CostPartial means that CostUSD lacks the last requests, because the program was killed before it reported them.
	CostPartial bool
	Turns       int
	Usage       Usage
	ReasonCode  ReasonCode // why it failed, for programs
	RetryAt     time.Time  // when the cause of the failure ends; zero if that is not known
	// Output is the JSON value that the agent returned if the run has TaskOptions.OutputSchema; nil if it returned none. It may
	// violate the schema.
	Output json.RawMessage `json:",omitempty"`

	// HasConversation means that the agent's next run continues the conversation of this one.
	HasConversation bool   `json:"Conversation"`
	SessionID       string // the conversation's id, as the agent's program knows it; empty if it is not known
	Terminal        bool   // Summary and Payload were read from the agent's terminal, as Output.Terminal says
}

// Usage counts the tokens and the tool calls of a run.
type Usage struct {
	Model                     string // as the model's provider calls it
	InputTokens, OutputTokens int64
	ToolCalls                 int
}
