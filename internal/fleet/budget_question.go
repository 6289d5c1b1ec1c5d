package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// These are answers to questions of the kind AskBudget. An amount of US dollars, with or without answerRaise, is an answer
// too: the new cost limit of the task.
const (
	answerGoOn  = "go on"    // the task goes on when the budgets have room; not valid if the task has used up its own limit
	answerStop  = "stop"     // the task is stopped
	answerRaise = "raise to" // with an amount
)

// BudgetAnswer says what happens to a task that has used up a budget. Unless Stop is set, the task goes on when the budgets
// have room.
type BudgetAnswer struct {
	Stop  bool
	Limit Micros // the new cost limit of the task; 0: its limit stays
}

// BudgetQuestion returns the question whether the pending task goes on. why is a sentence that says why the task was interrupted.
// limit is what the task was allowed to cost until then. If the task has used up its own cost limit, step is the amount by which
// the question offers to raise limit; otherwise step is 0.
func BudgetQuestion(t *Task, why string, limit, step Micros) *Question {
	q := &Question{
		ID:     t.BudgetQuestionID(),
		TaskID: t.ID, AgentUID: t.AgentUID, AgentName: t.AgentName, Owner: t.Owner, Kind: AskBudget, Status: QuestionWaiting,
		Text:    fmt.Sprintf("%s. The task has cost %s so far. Does it go on when the budget has room?", why, t.Used().Micros),
		Options: []string{answerGoOn, answerStop},
	}
	if step > 0 {
		q.Text = fmt.Sprintf("%s. The task has cost %s so far. What may it cost in all?", why, t.Used().Micros)
		q.Options = []string{fmt.Sprintf("%s %s", answerRaise, max(limit, t.Used().Micros+t.Delegation.GivenToChildren)+step), answerStop}
	}
	return q
}

// BudgetQuestionID returns the id of the question whether the pending task goes on. It differs from all ids that runners use,
// because it has one more hyphen.
func (t *Task) BudgetQuestionID() string { return fmt.Sprintf("%s-budget-%d", t.ID, t.Try) }

// ParseBudgetAnswer parses an answer to the question. It returns INVALID_ARGUMENT if the text is not an answer to it.
func ParseBudgetAnswer(q *Question, answer string) (BudgetAnswer, error) {
	text := strings.ToLower(strings.TrimSpace(answer))
	switch {
	case text == answerStop:
		return BudgetAnswer{Stop: true}, nil
	case text == answerGoOn && slices.Contains(q.Options, answerGoOn):
		return BudgetAnswer{}, nil
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(text, answerRaise)), "$"), 64)
	if err == nil {
		err = TaskOptions{MaxCostUSD: &usd}.Validate()
	}
	if err != nil {
		return BudgetAnswer{}, InvalidField("answer", "answer is %q: give %s, or what the task may cost in all, in US dollars", Shorten(answer, 60), strings.Join(q.Options, ", "))
	}
	return BudgetAnswer{Limit: MicrosOf(usd)}, nil
}
