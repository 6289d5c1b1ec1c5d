package fleet

import (
	"regexp"
	"time"
)

// QuestionKind says what an agent asks for.
type QuestionKind string

// The kinds of questions.
const (
	AskPermission QuestionKind = "permission" // may it use a tool: the answer is AnswerAllow or AnswerDeny
	AskText       QuestionKind = "question"   // the answer is any text
)

// The answers to a request for permission.
const (
	AnswerAllow = "allow"
	AnswerDeny  = "deny"
)

// QuestionStatus says what has become of a question.
type QuestionStatus string

// The statuses of a question. All but the first two are final; so is answered once the agent has the answer.
const (
	QuestionWaiting   QuestionStatus = "waiting"   // the agent waits for an answer
	QuestionAnswered  QuestionStatus = "answered"  // by a principal, or by the policy of its role
	QuestionExpired   QuestionStatus = "expired"   // nobody answered in time, which the agent was told as a denial
	QuestionWithdrawn QuestionStatus = "withdrawn" // the agent does not wait any more, or its run has ended
)

// ByPolicy is who answered a question that the policy of the agent's role answers.
const ByPolicy = "policy"

// Limits of questions.
const (
	MaxQuestionText    = 16 << 10 // bytes of a question's text
	MaxQuestionInput   = 64 << 10 // bytes of the input of the tool
	MaxQuestionOptions = 20
	MaxAnswer          = 64 << 10 // bytes of an answer, and of the message with it
)

// Question is something an agent asks while it works: a permission, or an answer. The run waits for it. The runner
// names questions within a run (see LocalID); the ID is unique in the fleet.
type Question struct {
	ID        string
	TaskID    string
	AgentUID  string
	AgentName string
	Owner     string
	Kind      QuestionKind
	Status    QuestionStatus
	Text      string
	Tool      string   // that the agent wants to use; empty: none
	Input     []byte   // of that tool, a JSON object; nil: none
	Options   []string // answers that the agent suggests
	AskedAt   time.Time
	ExpiresAt time.Time

	Answer     string
	Message    string // to the agent beside the answer, for example why it was denied
	AnsweredBy string // name of the principal, or ByPolicy
	AnsweredAt time.Time
	GivenAt    time.Time // when the agent had the answer; zero: not yet
}

// Open says whether something is still to be done about the question: to answer it, or to give its agent the answer.
func (q *Question) Open() bool {
	return q.Status == QuestionWaiting || q.Status == QuestionAnswered && q.GivenAt.IsZero()
}

// LocalID returns the id by which the runner knows the question.
func (q *Question) LocalID() string { return q.ID[len(q.TaskID)+1:] }

// questionID returns the id of a question of the task that the runner knows by the local id.
func questionID(taskID, localID string) string { return taskID + "-" + localID }

var localQuestionID = regexp.MustCompile(`^[A-Za-z0-9]{1,40}$`)

// QuestionFilter says which questions; the zero value means all.
type QuestionFilter struct {
	Owner     string // of this principal; "" for all
	AgentName string // compared without case
	TaskID    string
	Prefix    string // of the id
	Waiting   bool   // those alone that wait for an answer
	NotGiven  bool   // those alone that are answered, and whose agents do not have the answer yet
}

// cut bounds what an agent has asked, which a hostile one may make as long as it likes.
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

// words is the question as the event log has it.
func (q *Question) words() string {
	if q.Kind == AskPermission && q.Text == "" {
		return "may it use " + q.Tool + "?"
	}
	return q.Text
}

// outcome is what became of the question, as the event log has it.
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
