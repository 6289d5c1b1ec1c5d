package service

import (
	"context"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

// ReviewTask adds a review to the work of the task r.TaskID. The caller sets TaskID, Verdict, Text and Comments of r; ReviewTask sets the
// other fields of the stored review. It returns the review, and the work with all its reviews. A review that requests changes becomes the
// next task of the same agent, in the same conversation. The error is WORK_SETTLED if the work has landed, was abandoned or was replaced,
// or if the review requests changes and the work is landing at this moment.
func (s *Service) ReviewTask(ctx context.Context, r fleet.Review, requestID string) (*fleet.Review, *LandingView, error) {
	if r.TaskID == "" {
		return nil, nil, errNoTaskID()
	}
	if err := r.Validate(); err != nil {
		return nil, nil, err
	}
	result, _, err := s.Once(ctx, Call{Method: "ReviewTask", RequestID: requestID, Body: []any{r, r.TaskID}}, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		t, _, l, err := s.openWork(tx, p, r.TaskID, fleet.AccessRun)
		if err != nil {
			return CallResult{}, err
		}
		if r.Verdict == fleet.VerdictChanges && l.Candidate != "" {
			return CallResult{}, errLanding(t, l)
		}
		all, err := tx.Reviews(t.ID)
		if err != nil {
			return CallResult{}, err
		}
		if len(all) >= fleet.MaxReviews {
			return CallResult{}, fleet.LimitReached("reviews", "the task has", int64(len(all)), fleet.MaxReviews, "reviews", "{start_agent_task} gives its agent a new task")
		}
		review := r
		review.ID, review.TaskID, review.By, review.At, review.Head, review.NextTask = fmt.Sprintf("%s/%d", t.ID, len(all)+1), t.ID, p.Name, s.now(), l.Head, ""
		text := "commented on by " + p.Name
		switch r.Verdict {
		case fleet.VerdictApprove:
			text = "approved by " + p.Name
		case fleet.VerdictChanges:
			title, err := workTitle(tx, t, l)
			if err != nil {
				return CallResult{}, err
			}
			next, err := s.continueWork(ctx, tx, p, t, l, changesTask(title, &review))
			if err != nil {
				return CallResult{}, err
			}
			review.NextTask, text = next.ID, "changes requested by "+p.Name
			l.Request = nil // the request to land ends, because the changes must be made first
		}
		if err := tx.Insert(&review); err != nil {
			return CallResult{}, err
		}
		// A comment keeps the earlier verdict. An approval does not take queued work out of the queue; only requested changes do.
		if r.Verdict == fleet.VerdictChanges || l.State == fleet.LandingBranch || r.Verdict == fleet.VerdictApprove && l.State != fleet.LandingQueued {
			l.State = r.Verdict.State()
		}
		return CallResult{AgentUID: t.AgentUID, ObjectID: review.ID}, s.putLanding(tx, t, l, text)
	})
	if err != nil {
		return nil, nil, err
	}
	taskID, _, _ := strings.Cut(result.ObjectID, "/")
	v, err := s.landingView(ctx, taskID)
	if err != nil {
		return nil, nil, err
	}
	for _, review := range v.Reviews {
		if review.ID == result.ObjectID {
			return review, v, nil
		}
	}
	return nil, nil, errTaskNotFound(taskID) // it was deleted meanwhile
}

// changesTask returns the description of the task that makes the changes that a review requests. Each line begins with
// #, so that a shell, which runs some descriptions, treats it as a comment.
func changesTask(title string, r *fleet.Review) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Changes requested on %q\n# %s has reviewed this work of yours. Make the changes, and say what you did.\n", title, r.By)
	if !fleet.IsBlank(r.Text) {
		b.WriteString("#\n")
		quoteLines(&b, strings.TrimSpace(r.Text))
	}
	for _, c := range r.Comments {
		b.WriteString("#\n# " + c.Location() + ":\n")
		quoteLines(&b, strings.TrimSpace(c.Text))
	}
	return b.String()
}
