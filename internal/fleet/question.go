package fleet

import (
	"strings"
	"time"
)

// QuestionKind is the kind of a question.
type QuestionKind string

// The kinds of questions.
const (
	AskPermission QuestionKind = "permission" // whether the agent may use a tool; answered with AnswerAllow or AnswerDeny
	AskText       QuestionKind = "question"   // answered with any text
	AskBudget     QuestionKind = "budget"     // whether a task that has used up a budget goes on; asked by Fleet, see BudgetAnswer
)

// These are the answers to a request for permission.
const (
	AnswerAllow = "allow"
	AnswerDeny  = "deny"
)

// QuestionStatus is the state of a question.
type QuestionStatus string

// These are the states of a question. Expired and withdrawn are final. Answered is final once the agent has received the
// answer.
const (
	QuestionWaiting   QuestionStatus = "waiting"   // the agent waits for an answer
	QuestionAnswered  QuestionStatus = "answered"  // AnsweredBy says by whom
	QuestionExpired   QuestionStatus = "expired"   // nobody answered in time, so the agent was denied
	QuestionWithdrawn QuestionStatus = "withdrawn" // the agent no longer waits, or its run has ended
)

// These are the values of AnsweredBy that are not names of principals.
const (
	ByPolicy  = "policy"  // the policy of the agent's role
	ByUnknown = "unknown" // a program that did not use Fleet's API, for example an unconfined agent
)

// These limit questions.
const (
	MaxQuestionText    = 16 << 10 // of a question's text, in bytes
	MaxQuestionInput   = 64 << 10 // of the tool's input, in bytes
	MaxQuestionOptions = 20
	MaxRuleSize        = 600      // of a rule, in bytes
	MaxAnswer          = 64 << 10 // of an answer and of its message, in bytes
)

// Question is a request of a working agent for a permission or an answer. The run waits for the answer. The runner gives
// the question an id within the run (see LocalID); ID is unique in the fleet. A question of the kind AskBudget is from Fleet, and
// its task is pending until somebody answers.
type Question struct {
	ID        string
	TaskID    string
	AgentUID  string
	AgentName string
	Owner     string // of the agent
	Kind      QuestionKind
	Status    QuestionStatus
	Text      string
	Tool      string   // the tool that the agent wants to use; empty if the question is not about a tool
	Input     []byte   // arguments of the tool, a JSON object; nil if there are none
	Options   []string // answers that the agent suggests
	Rules     []string // what a remembered answer allows, in the syntax of the role's permissions; nil: it cannot be remembered
	AskedAt   time.Time
	ExpiresAt time.Time // zero: never

	Answer      string
	Message     string // to the agent with the answer, for example why it was denied
	Remember    RememberScope
	AnsweredBy  string // name of the principal, ByPolicy or ByUnknown
	AnsweredAt  time.Time
	DeliveredAt time.Time // when the agent received the answer; zero if it has not
}

// RememberScope says for how long an allowed permission holds.
type RememberScope string

// The values of RememberScope. The empty value means RememberOnce.
const (
	RememberOnce  RememberScope = "once"  // for this call
	RememberTask  RememberScope = "task"  // for such calls in the same task
	RememberAgent RememberScope = "agent" // for such calls of the agent, until somebody removes the rule
)

// Remembered reports whether the answer allows further calls.
func (q *Question) Remembered() bool {
	return q.Answer == AnswerAllow && (q.Remember == RememberTask || q.Remember == RememberAgent)
}

// AllowedRule is a rule that somebody has allowed by answering a question.
type AllowedRule struct {
	Rule   string    `json:"rule"`
	TaskID string    `json:"task_id,omitempty"` // the only task in which it holds; empty: in all tasks of the agent
	By     string    `json:"by"`                // name of the principal who has answered
	At     time.Time `json:"at"`
}

// MaxAllowedRules is how many allowed rules an agent can have.
const MaxAllowedRules = 100

// Final reports whether the question no longer changes: it has expired, was withdrawn, or its answer was delivered.
func (q *Question) Final() bool {
	return q.Status != QuestionWaiting && (q.Status != QuestionAnswered || !q.DeliveredAt.IsZero())
}

// LocalID returns the runner's id of the question.
func (q *Question) LocalID() string { return q.ID[strings.LastIndexByte(q.ID, '-')+1:] }

// QuestionFilter selects questions; the zero value selects all.
type QuestionFilter struct {
	Owner       string   // only questions of this principal's agents; empty: of all agents
	SharedUIDs  []string // uids of agents of other owners to include; only with Owner
	Projects    []string // only questions of agents in these projects, each a name or PLACE/NAME; empty: of all agents
	AgentUID    string   // only questions of this agent, not of other agents with its name
	AgentName   string   // compared ignoring case
	TaskID      string
	ID          string
	Prefix      string // of the question's ID
	Waiting     bool   // only questions that wait for an answer
	Undelivered bool   // only answered questions whose agents have not received the answer
}

// QuestionByID returns the question with the id, or nil if it does not exist or the id is empty.
func QuestionByID(tx ReadTx, id string) (*Question, error) {
	if id == "" {
		return nil, nil
	}
	found, _, err := tx.Questions(QuestionFilter{ID: id}, 1, 0)
	return First(found, err)
}

// OutcomeText describes how the question was answered or has ended, for the event log.
func (q *Question) OutcomeText() string {
	switch q.Status {
	case QuestionExpired:
		return "nobody answered in time: denied"
	case QuestionWithdrawn:
		return "the agent no longer waits for an answer"
	}
	text := q.AnsweredBy + " answered: " + Shorten(q.Answer, 200)
	if q.Message != "" {
		text += " (" + Shorten(q.Message, 200) + ")"
	}
	return text
}

// Event returns an event of the task about the question. Its Data names the question.
func (q *Question) Event(t *Task, typ EventType, at time.Time, text string) *Event {
	e := t.Event(typ, at, text)
	e.Data = (&Step{Type: StepQuestion, ID: q.ID}).JSON()
	return e
}
