package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ReviewTask adds a review of the work of a task.
func (f *Fleet) ReviewTask(ctx context.Context, r *fleetv1.ReviewTaskRequest) (*fleetv1.ReviewTaskResponse, error) {
	q := fleet.Review{TaskID: r.GetTaskId(), Text: r.GetText(), Verdict: fleet.VerdictComment}
	if r.GetVerdict() != fleetv1.Review_verdict_unspecified {
		q.Verdict = fleet.Verdict(r.GetVerdict().String())
	}
	for _, c := range r.GetComments() {
		q.Comments = append(q.Comments, fleet.ReviewComment{Path: c.GetPath(), Line: int(c.GetLine()), Old: c.GetOld(), Text: c.GetText()})
	}
	review, v, err := f.svc.ReviewTask(ctx, q, r.GetRequestId())
	if err != nil {
		return nil, err
	}
	message := "Review added successfully"
	if review.NextTask != "" {
		message += ": agent " + v.Task.AgentName + " makes the changes in task " + review.NextTask
	}
	return &fleetv1.ReviewTaskResponse{Review: reviewOf(review), Landing: landingOf(v.Landing), Message: message}, nil
}

// ListReviews lists work with its reviews.
func (f *Fleet) ListReviews(ctx context.Context, r *fleetv1.ListReviewsRequest) (*fleetv1.ListReviewsResponse, error) {
	q := service.ListWorkRequest{
		TaskID: r.GetTaskId(), Project: r.GetProject(), Selector: r.GetSelector(), PageRequest: cursorPageIn(r.GetCursor(), r.Limit),
	}
	for _, s := range r.GetStates() {
		q.States = append(q.States, fleet.LandingState(s.String()))
	}
	l, err := f.svc.ListWork(ctx, q)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListReviewsResponse{Tasks: listOf(l.Work, reviewedOf), TotalCount: int32Of(l.Total), NextCursor: optional(l.Next)}, nil
}

func reviewedOf(v *service.LandingView) *fleetv1.ReviewedTask {
	return &fleetv1.ReviewedTask{
		TaskId: v.TaskID, AgentName: v.Task.AgentName, Owner: v.Task.Owner, Project: v.Project, Title: textOf(v.Task.Title()),
		Summary: textOf(v.Task.ShortHeadline()), CompletedAt: timeOf(v.Task.EndedAt), Landing: landingOf(v.Landing), Reviews: listOf(v.Reviews, reviewOf),
	}
}

func reviewOf(r *fleet.Review) *fleetv1.Review {
	return &fleetv1.Review{
		Id: r.ID, By: r.By, CreatedAt: timeOf(r.At), Verdict: fleetv1.Review_Verdict(fleetv1.Review_Verdict_value[string(r.Verdict)]), Text: textOf(r.Text), HeadSha: r.Head,
		NextTaskId: optional(r.NextTask), Comments: listOf(r.Comments, func(c fleet.ReviewComment) *fleetv1.ReviewComment {
			return &fleetv1.ReviewComment{Path: textOf(c.Path), Line: int32Of(c.Line), Old: c.Old, Text: textOf(c.Text)}
		}),
	}
}
