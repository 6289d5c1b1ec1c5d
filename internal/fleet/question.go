package fleet

import (
	"regexp"
	"slices"
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

// questionID returns the id of a question of the task's run from the runner's local id. Each try of a task has its own
// run with its own ids.
func questionID(t *Task, localID string) string { return t.run(true).TaskID + "-" + localID }

var localQuestionID = regexp.MustCompile(`^[A-Za-z0-9]{1,40}$`)

// QuestionFilter selects questions; the zero value selects all.
type QuestionFilter struct {
	Owner     string // of this principal; "" for all
	AgentName string // compared ignoring case
	TaskID    string
	Prefix    string // of the id
	Waiting   bool   // only those that wait for an answer
	NotGiven  bool   // only answered ones whose agents do not have the answer yet
}

// understood checks a question from a runner, which an agent may have influenced.
func (q *Question) understood() bool {
	return localQuestionID.MatchString(q.ID) && slices.Contains([]QuestionKind{AskPermission, AskText}, q.Kind) &&
		slices.Contains([]QuestionStatus{QuestionWaiting, QuestionAnswered, QuestionExpired, QuestionWithdrawn}, q.Status)
}

// cut shortens what an agent has asked, since a hostile agent may make it arbitrarily long.
func (q *Question) cut() {
	q.Text, q.Tool, q.Message = shorten(q.Text, MaxQuestionText/4), shorten(q.Tool, 200), shorten(q.Message, MaxAnswer/4)
	q.Answer = shorten(q.Answer, MaxAnswer/4)
	if len(q.Input) > MaxQuestionInput {
		q.Input = nil
	}
	q.Options = q.Options[:min(len(q.Options), MaxQuestionOptions)]
	for i, o := range q.Options {
		q.Options[i] = shorten(o, 200)
	}
}

// maxAskTime is the longest time that a question can wait.
const maxAskTime = 366 * 24 * time.Hour

// settle makes the times and answers of a runner consistent, as the store requires.
func (q *Question) settle(now time.Time) {
	if q.AskedAt.IsZero() || q.AskedAt.Sub(now).Abs() > maxAskTime {
		q.AskedAt = now
	}
	if d := q.ExpiresAt.Sub(q.AskedAt); d < 0 || d > maxAskTime {
		q.ExpiresAt = q.AskedAt
	}
	if q.Status != QuestionAnswered {
		q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt = "", "", "", time.Time{}
		return
	}
	if q.AnsweredBy != ByPolicy {
		q.AnsweredBy = ByUnknown // unless the store knows the answer, which the runner then got from there
	}
	if q.AnsweredAt.IsZero() || q.AnsweredAt.Sub(now).Abs() > maxAskTime {
		q.AnsweredAt = now
	}
}

// words returns the question for the event log.
func (q *Question) words() string {
	if q.Kind == AskPermission && q.Text == "" {
		return "may it use " + q.Tool + "?"
	}
	return q.Text
}

// outcome returns the end of the question for the event log.
func (q *Question) outcome() string {
	switch q.Status {
	case QuestionExpired:
		return "nobody answered in time: denied"
	case QuestionWithdrawn:
		return "the agent does not wait for an answer any more"
	}
	text := q.AnsweredBy + " answered: " + shorten(q.Answer, 200)
	if q.Message != "" {
		text += " (" + shorten(q.Message, 200) + ")"
	}
	return text
}
