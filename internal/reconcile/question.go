package reconcile

import (
	"regexp"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// questionID makes the id of a question of the task's current run from the id that the runner has given it. The runner's id
// is unique only within the run, and each try of a task is another run.
func questionID(t *fleet.Task, localID string) string { return t.Run().TaskID + "-" + localID }

var localQuestionID = regexp.MustCompile(`^[A-Za-z0-9]{1,40}$`)

// validQuestion reports whether the id, the kind and the status of a runner's question are valid. They may be invalid, because
// the agent may have influenced the question.
func validQuestion(q *fleet.Question) bool {
	return localQuestionID.MatchString(q.ID) && slices.Contains([]fleet.QuestionKind{fleet.AskPermission, fleet.AskText}, q.Kind) &&
		slices.Contains([]fleet.QuestionStatus{fleet.QuestionWaiting, fleet.QuestionAnswered, fleet.QuestionExpired, fleet.QuestionWithdrawn}, q.Status)
}

// shortenQuestion shortens the texts of the question, because a hostile agent may make them arbitrarily long. It removes an
// input or rules that are too long. The limits of texts are in bytes, and a character has at most 4 bytes.
func shortenQuestion(q *fleet.Question) {
	q.Text, q.Tool, q.Message = fleet.Shorten(q.Text, fleet.MaxQuestionText/4), fleet.Shorten(q.Tool, 200), fleet.Shorten(q.Message, fleet.MaxAnswer/4)
	q.Answer = fleet.Shorten(q.Answer, fleet.MaxAnswer/4)
	if len(q.Input) > fleet.MaxQuestionInput {
		q.Input = nil
	}
	q.Rules = q.Rules[:min(len(q.Rules), fleet.MaxQuestionOptions)]
	for _, rule := range q.Rules {
		if len(rule) > fleet.MaxRuleSize { // a shortened rule would be another one
			q.Rules = nil
			break
		}
	}
	q.Options = q.Options[:min(len(q.Options), fleet.MaxQuestionOptions)]
	for i, o := range q.Options {
		q.Options[i] = fleet.Shorten(o, 200)
	}
}

// maxAskTime is the longest time that a question can wait. A runner's time that is further away from now is not believed.
const maxAskTime = 366 * 24 * time.Hour

// normalizeQuestion makes the times and the answer in a runner's question consistent, as the store requires.
func normalizeQuestion(q *fleet.Question, now time.Time) {
	if q.AskedAt.IsZero() || q.AskedAt.Sub(now).Abs() > maxAskTime {
		q.AskedAt = now
	}
	if d := q.ExpiresAt.Sub(q.AskedAt); d < 0 || d > maxAskTime {
		q.ExpiresAt = q.AskedAt
	}
	if q.Status != fleet.QuestionAnswered {
		q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt = "", "", "", time.Time{}
		return
	}
	if q.AnsweredBy != fleet.ByPolicy {
		q.AnsweredBy = fleet.ByUnknown // the caller keeps the stored answer if there is one
	}
	if q.AnsweredAt.IsZero() || q.AnsweredAt.Sub(now).Abs() > maxAskTime {
		q.AnsweredAt = now
	}
}

// questionText returns the question for the event log.
func questionText(q *fleet.Question) string {
	if q.Kind == fleet.AskPermission && q.Text == "" {
		return "may it use " + q.Tool + "?"
	}
	return q.Text
}
