package rpc

import (
	"context"
	"fmt"
	"strings"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ShowOverlaps compares the open work on a project, and shows which tasks change the same lines or are in conflict.
func (f *Fleet) ShowOverlaps(ctx context.Context, r *fleetv1.ShowOverlapsRequest) (*fleetv1.ShowOverlapsResponse, error) {
	o, err := f.svc.ShowOverlaps(ctx, r.GetProject(), r.GetInto())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShowOverlapsResponse{
		Into: textOf(o.Into.Name), Sha: o.Into.Commit, Tasks: listOf(o.Work, reviewedOf), Overlaps: listOf(o.Pairs, overlapOf),
		MissingTaskIds: listOf(o.Missing, func(v *service.LandingView) string { return v.TaskID }),
	}, nil
}

// LandTasks queues the work of tasks for a branch. With dry_run, it only reports what can be combined with the branch.
func (f *Fleet) LandTasks(ctx context.Context, r *fleetv1.LandTasksRequest) (*fleetv1.LandTasksResponse, error) {
	q := service.LandRequest{
		TaskIDs: r.GetTaskIds(), Selector: r.GetSelector(), Project: r.GetProject(), Into: r.GetInto(), Message: r.GetMessage(), Batch: countIn(r.Batch),
		Strategy: fleet.Strategy(nameIn(r.GetStrategy())), NoFix: r.GetNoFix(), DryRun: r.GetDryRun(), RequestID: r.GetRequestId(),
	}
	landed, err := f.svc.LandTasks(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &fleetv1.LandTasksResponse{Message: fmt.Sprintf("%d tasks are in the queue of the branch", len(landed))}
	landable := 0
	for _, w := range landed {
		row := &fleetv1.LandedTask{TaskId: w.Task.ID, AgentName: w.Task.AgentName, Title: textOf(w.Task.Title()), Landing: landingOf(w.Landing), Problem: optional(textOf(w.Problem))}
		if w.Err != nil {
			row.Problem = new(textOf(fleet.PublicMessage(w.Err)))
		}
		if q.DryRun {
			row.CanLand = new(w.Err == nil && len(w.Conflicts) == 0)
			if row.GetCanLand() {
				landable++
			}
		}
		out.Tasks = append(out.Tasks, row)
	}
	if q.DryRun {
		out.Message = fmt.Sprintf("%d of %d tasks can be combined with the branch; the checks were not run", landable, len(landed))
	}
	return out, nil
}

// PublishTask pushes the work of a task, and opens a pull request if the request asks for one.
func (f *Fleet) PublishTask(ctx context.Context, r *fleetv1.PublishTaskRequest) (*fleetv1.PublishTaskResponse, error) {
	v, err := f.svc.PublishTask(ctx, service.PublishRequest{
		TaskID: r.GetTaskId(), Remote: r.GetRemote(), Branch: r.GetBranch(), PullRequest: r.GetPullRequest(), Into: r.GetInto(), Title: r.GetTitle(),
		Text: r.GetText(), Draft: r.GetDraft(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	message := fmt.Sprintf("Pushed to the branch %s of %s", v.Publication.Branch, v.Publication.Remote)
	if v.Publication.PullRequest != "" {
		message += ", pull request " + v.Publication.PullRequest
	}
	return &fleetv1.PublishTaskResponse{Landing: landingOf(v.Landing), Message: textOf(message)}, nil
}

// AbandonTask abandons the work of a task.
func (f *Fleet) AbandonTask(ctx context.Context, r *fleetv1.AbandonTaskRequest) (*fleetv1.AbandonTaskResponse, error) {
	v, err := f.svc.AbandonTask(ctx, r.GetTaskId(), r.GetReason(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.AbandonTaskResponse{Landing: landingOf(v.Landing), Message: "Work abandoned successfully"}, nil
}

// landingOf returns nil if l is nil.
func landingOf(l *fleet.Landing) *fleetv1.Landing {
	if l == nil {
		return nil
	}
	out := &fleetv1.Landing{
		State: fleetv1.Landing_State(fleetv1.Landing_State_value[string(l.State)]), BaseSha: l.Base, HeadSha: l.Head, LandedSha: optional(l.Commit), Into: optional(textOf(l.Into())),
		AgentBranch: textOf(l.Branch), Files: int32Of(l.FileCount), Insertions: int32Of(l.Insertions), Deletions: int32Of(l.Deletions), Problem: optional(textOf(l.Problem)),
		Checks: listOf(l.Checks, checkOf), NextTaskId: optional(l.NextTask), EarlierTaskIds: l.EarlierTasks, EvidenceAt: timeOf(l.EvidenceAt),
		Conflicts: listOf(l.Conflicts, func(c fleet.Conflict) *fleetv1.Conflict {
			return &fleetv1.Conflict{Path: textOf(c.Path), Kind: textOf(c.Kind), Hunks: optional(textOf(c.Hunks))}
		}),
	}
	if l.Request != nil {
		out.RequestedBy = optional(l.Request.By)
	}
	if p := l.Publication; p != nil {
		out.Published = &fleetv1.Published{Remote: textOf(p.Remote), Url: textOf(p.URL), Branch: textOf(p.Branch), Sha: p.Commit, PullRequest: optional(textOf(p.PullRequest)), PushedAt: timeOf(p.At)}
	}
	return out
}

// briefLandingOf returns the landing for a list of tasks, without the conflicts and the results of checks. It returns nil if l is nil.
func briefLandingOf(l *fleet.Landing) *fleetv1.Landing {
	out := landingOf(l)
	if out != nil {
		out.Conflicts, out.Checks = nil, nil
	}
	return out
}

func overlapOf(o fleet.WorkOverlap) *fleetv1.Overlap {
	return &fleetv1.Overlap{TaskId: o.A, OtherTaskId: o.B, Conflict: o.Conflict, Files: listOf(o.Files, func(f fleet.OverlapFile) *fleetv1.OverlapFile {
		lines := make([]string, len(f.Lines))
		for i, r := range f.Lines {
			if lines[i] = fmt.Sprint(r[0]); r[1] != r[0] {
				lines[i] = fmt.Sprintf("%d-%d", r[0], r[1])
			}
		}
		return &fleetv1.OverlapFile{Path: textOf(f.Path), Lines: strings.Join(lines, ",")}
	})}
}
