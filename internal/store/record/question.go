package record

import "fleet/internal/fleet"

// QuestionColumns are the columns of questions, except the key of the agent's name. QuestionArgs returns their values,
// and ScanQuestion reads them, in the same order.
const QuestionColumns = `id, task_id, agent_uid, agent_name, owner, kind, text, tool, input, options, asked_at, expires_at,
	status, answer, message, answered_by, answered_at, given_at, rules, remember`

// SelectQuestions is the beginning of a query whose rows ScanQuestion reads.
const SelectQuestions = `SELECT ` + QuestionColumns + ` FROM questions `

// QuestionArgs returns the values of QuestionColumns.
func QuestionArgs(q *fleet.Question) ([]any, error) {
	options, err := jsonOf(q.Options)
	var rules *string
	if err == nil && len(q.Rules) > 0 {
		rules, err = jsonOf(q.Rules)
	}
	return []any{
		q.ID, q.TaskID, q.AgentUID, q.AgentName, q.Owner, string(q.Kind), q.Text, q.Tool, q.Input, options, q.AskedAt, q.ExpiresAt,
		string(q.Status), q.Answer, q.Message, q.AnsweredBy, Maybe(q.AnsweredAt), Maybe(q.GivenAt), rules, string(q.Remember),
	}, err
}

// ScanQuestion returns the question of a row of SelectQuestions.
func ScanQuestion(row Scanner) (*fleet.Question, error) {
	var q fleet.Question
	return &q, row.Scan(&q.ID, &q.TaskID, &q.AgentUID, &q.AgentName, &q.Owner, (*string)(&q.Kind), &q.Text, &q.Tool, &q.Input,
		jsonInto{&q.Options}, (*Time)(&q.AskedAt), (*Time)(&q.ExpiresAt), (*string)(&q.Status), &q.Answer, &q.Message, &q.AnsweredBy,
		(*Time)(&q.AnsweredAt), (*Time)(&q.GivenAt), jsonInto{&q.Rules}, (*string)(&q.Remember))
}
