package fleet

import (
	"strings"
	"time"
)

// QuestionKind is the kind of a question.
type QuestionKind string

// The kinds of questions.
const (
	AskPermission QuestionKind = "permission" // may it use a tool; answered with AnswerAllow or AnswerDeny
	AskText       QuestionKind = "question"   // answered with any text
)

// These are the answers to a request for permission.
const (
	AnswerAllow = "allow"
	AnswerDeny  = "deny"
)

// QuestionStatus is the state of a question.
type QuestionStatus string

// These are the states of a question. Expired and withdrawn are final; so is answered once the agent has the answer.
const (
	QuestionWaiting   QuestionStatus = "waiting"   // the agent waits for an answer
	QuestionAnswered  QuestionStatus = "answered"  // by a principal, or by the policy of its role
	QuestionExpired   QuestionStatus = "expired"   // nobody answered in time, so the agent was denied
	QuestionWithdrawn QuestionStatus = "withdrawn" // the agent no longer waits, or its run has ended
)

// These are the values of AnsweredBy that are not principals.
const (
	ByPolicy  = "policy"  // the policy of the agent's role
	ByUnknown = "unknown" // somebody who did not ask Fleet, for example an unconfined agent
)

// These limit questions.
const (
	MaxQuestionText    = 16 << 10 // of a question's text, in bytes
	MaxQuestionInput   = 64 << 10 // of the tool's input, in bytes
	MaxQuestionOptions = 20
	MaxAnswer          = 64 << 10 // of an answer and of its message, in bytes
)

// Question is a permission or an answer that an agent asks for while it works. The run waits for it. The runner names
// questions within a run (see LocalID); the ID is unique in the fleet.
type Question struct {
	ID        string
	TaskID    string
	AgentUID  string
	AgentName string
	Owner     string
	Kind      QuestionKind
	Status    QuestionStatus
	Text      string
	Tool      string   // that the agent wants to use; empty if none
	Input     []byte   // of the tool, a JSON object; nil if none
	Options   []string // answers that the agent suggests
	AskedAt   time.Time
	ExpiresAt time.Time

	Answer     string
	Message    string // to the agent with the answer, for example why it was denied
	AnsweredBy string // name of the principal, or ByPolicy
	AnsweredAt time.Time
	GivenAt    time.Time // when the agent got the answer; zero if it has not
}

// Open reports whether the question still needs something: an answer, or the delivery of the answer.
func (q *Question) Open() bool {
	return q.Status == QuestionWaiting || q.Status == QuestionAnswered && q.GivenAt.IsZero()
}

// LocalID returns the runner's id of the question.
func (q *Question) LocalID() string { return q.ID[strings.LastIndexByte(q.ID, '-')+1:] }

// QuestionFilter selects questions; the zero value selects all.
type QuestionFilter struct {
	Owner     string   // of this principal; "" for all
	Shared    []string // with an Owner: also of these agents, by uid
	Projects  []string // of agents of these projects, each a name or PLACE/NAME; empty: of all agents
	AgentUID  string   // of this agent, not others of its name
	AgentName string   // compared ignoring case
	TaskID    string
	Prefix    string // of the id
	Waiting   bool   // only those that wait for an answer
	NotGiven  bool   // only answered ones whose agents do not have the answer yet
}

// Outcome returns the end of the question for the event log.
func (q *Question) Outcome() string {
	switch q.Status {
	case QuestionExpired:
		return "nobody answered in time: denied"
	case QuestionWithdrawn:
		return "the agent does not wait for an answer any more"
	}
	text := q.AnsweredBy + " answered: " + Shorten(q.Answer, 200)
	if q.Message != "" {
		text += " (" + Shorten(q.Message, 200) + ")"
	}
	return text
}
