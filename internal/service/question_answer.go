package service

import (
	"cmp"
	"context"

	"fleet/internal/fleet"
)

// AnswerQuestionRequest is an answer to a question.
type AnswerQuestionRequest struct {
	ID      string // id of the question, or a prefix that only one visible question has; waiting questions have precedence
	Answer  string // AnswerAllow or AnswerDeny for a permission, otherwise any text
	Message string // text for the agent, sent with the answer; may be empty
	// Remember says for how long an allowed permission holds; empty means once.
	Remember fleet.RememberScope `json:",omitempty"`

	RequestID string `json:"-"`
}

// AnswerQuestion answers a question. It waits until the agent has received the answer, at most state.Config.MessageWait; the
// returned text says whether the agent has received it. Only the first answer counts. The caller who gave it may repeat it.
// The error is QUESTION_CLOSED for any other answer and for a question that was closed without an answer, and QUESTION_NOT_FOUND if
// the caller may not see the question.
func (s *Service) AnswerQuestion(ctx context.Context, r AnswerQuestionRequest) (*fleet.Question, string, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, "", err
	}
	if p.AgentUID != "" {
		return nil, "", fleet.Errorf(fleet.ReasonPermissionDenied, "an agent cannot answer questions: ask its owner to answer")
	}
	if r.ID == "" {
		return nil, "", fleet.InvalidField("question_id", "question_id is required").Next("{list_questions} gives ids")
	}
	if err := checkText(fleet.ReasonInvalidArgument, "answer", "the answer", r.Answer); err != nil {
		return nil, "", err
	}
	if err := checkOptionalText("message", "the message", r.Message); err != nil {
		return nil, "", err
	}
	for field, text := range map[string]string{"answer": r.Answer, "message": r.Message} {
		if len(text) > fleet.MaxAnswer {
			return nil, "", fleet.InvalidField(field, "%s has %d bytes: give at most %d", field, len(text), fleet.MaxAnswer)
		}
	}
	var q *fleet.Question
	_, repeated, err := s.Once(ctx, Call{Method: "AnswerQuestion", RequestID: r.RequestID, Body: r}, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		if q, err = s.answerableQuestion(tx, p, r.ID); err != nil {
			return CallResult{}, err
		}
		return CallResult{AgentUID: q.AgentUID, ObjectID: q.TaskID}, s.recordAnswer(tx, p, q, r)
	})
	if err == nil && repeated {
		q, err = view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Question, error) { return s.answerableQuestion(tx, p, r.ID) })
	}
	if err != nil {
		return nil, "", err
	}
	q, err = s.awaitAnswer(ctx, q.ID)
	switch {
	case err != nil:
		return nil, "", err
	case q.Status != fleet.QuestionAnswered:
		return nil, "", errQuestionClosed(q)
	case q.Kind == fleet.AskBudget:
		return q, "The answer is noted: the task goes on when the budgets have room, or is stopped", nil
	case q.DeliveredAt.IsZero():
		return q, "The answer is stored: the agent gets it as soon as its host can be reached, if it still waits then", nil
	}
	return q, "The agent has the answer", nil
}

// answerableQuestion returns the question that p wants to answer. id is as in visibleQuestion. The error is QUESTION_NOT_FOUND if p may
// not see the question, and PERMISSION_DENIED if p may see it but not answer it.
func (s *Service) answerableQuestion(tx fleet.ReadTx, p fleet.Principal, id string) (*fleet.Question, error) {
	q, err := s.visibleQuestion(tx, p, id)
	if err != nil || p.OwnsAll(q.Owner) {
		return q, err
	}
	access, err := accessToAgent(tx, p, q.Owner, q.AgentUID)
	if err == nil {
		err = requireAccessLevel(access, fleet.AccessRun, q.AgentName, q.Owner)
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// visibleQuestion returns the question with the id, if p may see it. id may be a prefix of the ids of exactly one visible question.
// Questions that no longer wait count only if no waiting question has the prefix.
func (s *Service) visibleQuestion(tx fleet.ReadTx, p fleet.Principal, id string) (*fleet.Question, error) {
	q, err := fleet.QuestionByID(tx, id)
	if err != nil {
		return nil, err
	}
	if q != nil {
		if access, err := accessToAgent(tx, p, q.Owner, q.AgentUID); err != nil || access != fleet.AccessNone {
			return q, err
		}
	}
	if len(id) >= MinIDPrefix && len(id) <= maxIDPrefix {
		for _, waiting := range []bool{true, false} { // a repeated answer is for a question that no longer waits
			f := fleet.QuestionFilter{Prefix: id, Waiting: waiting, Projects: p.Projects}
			if !p.Admin() {
				f.Owner, f.SharedUIDs = p.Name, s.snap.Shares().SharedWith(p)
			}
			found, total, err := tx.Questions(f, 1, 0)
			switch {
			case err != nil:
				return nil, err
			case total == 1:
				return found[0], nil
			case total > 1:
				return nil, fleet.InvalidField("question_id", "the ids of several questions begin with %q: give more of the id", id)
			}
		}
	}
	return nil, fleet.Errorf(fleet.ReasonQuestionNotFound, "question %q not found", fleet.Shorten(id, 80)).Next("{list_questions} shows the questions that wait for an answer").
		With("question_id", fleet.Shorten(id, 80))
}

// checkAnswer returns an error if the answer does not fit the question. budget is the meaning of an answer to a question about a
// budget. remember is for how long an allowed permission holds; empty for any other answer.
func checkAnswer(q *fleet.Question, r AnswerQuestionRequest) (budget fleet.BudgetAnswer, remember fleet.RememberScope, err error) {
	if q.Kind == fleet.AskPermission && r.Answer != fleet.AnswerAllow && r.Answer != fleet.AnswerDeny {
		return budget, "", fleet.InvalidField("answer", "the agent asks for a permission: answer %q or %q, and put further information into message", fleet.AnswerAllow, fleet.AnswerDeny)
	}
	if q.Kind == fleet.AskBudget {
		if r.Message != "" {
			return budget, "", fleet.InvalidField("message", "Fleet asks, so there is no agent that gets a message: leave it out")
		}
		if budget, err = fleet.ParseBudgetAnswer(q, r.Answer); err != nil {
			return budget, "", err
		}
	}
	remembers := r.Remember == fleet.RememberTask || r.Remember == fleet.RememberAgent
	switch {
	case remembers && (q.Kind != fleet.AskPermission || r.Answer != fleet.AnswerAllow):
		return budget, "", fleet.InvalidField("remember", "remember is %s, but only an allowed permission can be remembered: leave it out", r.Remember)
	case remembers && len(q.Rules) == 0:
		return budget, "", fleet.InvalidField("remember", "there is no rule that would allow only such calls, so this permission cannot be remembered: leave remember out, or add a rule to the role")
	case q.Kind == fleet.AskPermission && r.Answer == fleet.AnswerAllow:
		remember = cmp.Or(r.Remember, fleet.RememberOnce)
	}
	return budget, remember, nil
}

// recordAnswer records the answer of p in tx. It does nothing if p has given the same answer before. The agent's worker delivers the
// answer, unless Fleet itself has asked.
func (s *Service) recordAnswer(tx fleet.Tx, p fleet.Principal, q *fleet.Question, r AnswerQuestionRequest) error {
	budget, remember, err := checkAnswer(q, r)
	if err != nil {
		return err
	}
	if q.Status == fleet.QuestionAnswered && q.AnsweredBy == p.Name && q.Answer == r.Answer && q.Message == r.Message && q.Remember == remember {
		return nil
	}
	t, err := tx.Task(q.TaskID)
	if err != nil {
		return err
	}
	a, err := tx.Agent(q.AgentUID)
	if err == nil && a != nil {
		err = s.checkConfined(p, a)
	}
	switch {
	case err != nil:
		return err
	case q.Status != fleet.QuestionWaiting || t == nil || !t.Active():
		return errQuestionClosed(q)
	}
	q.Status, q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt, q.Remember = fleet.QuestionAnswered, r.Answer, r.Message, p.Name, s.now(), remember
	if q.Remembered() && a != nil {
		if err := addAllowedRules(a, q); err != nil {
			return err
		}
		a.UpdatedAt = q.AnsweredAt
		if err := tx.Update(a); err != nil {
			return err
		}
	}
	if q.Kind == fleet.AskBudget { // Fleet itself acts on the answer, in this transaction
		q.DeliveredAt = q.AnsweredAt
	}
	if err := tx.Update(q); err != nil {
		return err
	}
	t.OpenQuestions--
	if err := tx.Append(q.Event(t, fleet.EventTaskAnswer, q.AnsweredAt, q.OutcomeText())); err != nil {
		return err
	}
	if q.Kind == fleet.AskBudget {
		return s.actOnBudgetAnswer(tx, p, t, budget)
	}
	return tx.Update(t)
}

func errQuestionClosed(q *fleet.Question) *fleet.Error {
	return fleet.Errorf(fleet.ReasonQuestionClosed, "question %q is no longer open: %s", q.ID, q.OutcomeText()).
		With("question_id", q.ID).With("status", string(q.Status))
}

// awaitAnswer waits until the answer is delivered or the question is closed, at most state.Config.MessageWait, and returns the
// question. The error is QUESTION_NOT_FOUND if the question was deleted meanwhile.
func (s *Service) awaitAnswer(ctx context.Context, id string) (q *fleet.Question, err error) {
	err = s.await(ctx, s.cfg.MessageWait, func() (bool, error) {
		q, err = view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Question, error) { return fleet.QuestionByID(tx, id) })
		if err == nil && q == nil { // its task was deleted meanwhile
			err = fleet.Errorf(fleet.ReasonQuestionNotFound, "question %q was deleted with its task", id).With("question_id", id)
		}
		return err == nil && q.Final(), err
	})
	return q, err
}
