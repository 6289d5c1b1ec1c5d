package service

import (
	"cmp"
	"context"

	"fleet/internal/fleet"
)

// ListQuestionsRequest selects questions.
type ListQuestionsRequest struct {
	Agent, TaskID string // only questions of this agent and of this task; empty means all
	// IncludeAnswered includes all questions that no longer wait, even those that were closed without an answer.
	IncludeAnswered bool
	fleet.PageRequest
}

// QuestionPage is a page of the matching questions, newest first.
type QuestionPage struct {
	Questions []*fleet.Question
	Access    []fleet.Access // for each question, what the caller may do with its agent
	Total     int            // number of matching questions
	Next      string         // cursor of the next page; "" on the last page
}

// ListQuestions returns a page of the matching questions of agents that the caller sees, newest first.
func (s *Service) ListQuestions(ctx context.Context, r ListQuestionsRequest) (*QuestionPage, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if r.Limit != nil && *r.Limit > fleet.MaxPageSize {
		return nil, fleet.InvalidField("limit", "limit is %d: give 1 to %d", *r.Limit, fleet.MaxPageSize)
	}
	size := fleet.DefaultPageSize
	if r.Limit != nil {
		size = fleet.MaxPageSize
	}
	offset, count, err := r.Window(size)
	if err != nil {
		return nil, err
	}
	page := &QuestionPage{}
	sel, err := s.selectAgents(ctx, p, r.Agent)
	switch {
	case fleet.ReasonOf(err) == fleet.ReasonAgentNotFound: // an unknown name only means that there are no questions
		return page, nil
	case err != nil:
		return nil, err
	}
	f := fleet.QuestionFilter{AgentName: sel.name, Owner: sel.owner, SharedUIDs: sel.sharedUIDs, Projects: sel.projects, AgentUID: sel.uid, Waiting: !r.IncludeAnswered}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		if r.TaskID != "" {
			t, err := s.task(tx, p, r.TaskID, fleet.AccessView)
			if err != nil {
				return err
			}
			f.TaskID = t.ID
		}
		if page.Questions, page.Total, err = tx.Questions(f, count, offset); err != nil {
			return err
		}
		page.Access = make([]fleet.Access, len(page.Questions))
		for i, question := range page.Questions {
			access, err := accessToAgent(tx, p, question.Owner, question.AgentUID)
			if err != nil {
				return err
			}
			// A share can end between the selection and this transaction.
			page.Access[i] = cmp.Or(p.CapByScope(access), fleet.AccessView)
		}
		return nil
	})
	page.Next = fleet.NextCursor(offset, len(page.Questions), page.Total)
	return page, err
}
