package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ShowTaskChanges shows the changes of a task: the list of changed files, or, with patch, a portion of the patch.
func (f *Fleet) ShowTaskChanges(ctx context.Context, r *fleetv1.ShowTaskChangesRequest) (*fleetv1.ShowTaskChangesResponse, error) {
	page := cursorPageIn(r.GetCursor(), r.Limit)
	if _, _, err := page.Window(0); err != nil {
		return nil, err
	}
	if r.GetPatch() {
		return f.showPatch(ctx, r)
	}
	partOfPatch := func(field string) error {
		return fleet.InvalidField(field, "%s selects a part of the patch: set patch too", field)
	}
	switch {
	case r.GetPath() != "":
		return nil, partOfPatch("path")
	case r.PatchOffset != nil:
		return nil, partOfPatch("patch_offset")
	}
	since, err := sinceIn(r.GetSince())
	if err != nil {
		return nil, err
	}
	c, err := f.svc.TaskChanges(ctx, r.GetTaskId(), since)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(c.FileChanges, page, 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShowTaskChangesResponse{Changes: changesOf(c), Files: listOf(part, fileChangeOf), NextCursor: optional(next)}, nil
}

func fileChangeOf(file fleet.FileChange) *fleetv1.FileChange {
	return &fleetv1.FileChange{
		Path: textOf(file.Path), From: optional(textOf(file.From)), Kind: fleetv1.FileChange_Kind(fleetv1.FileChange_Kind_value[string(file.Kind)]),
		Insertions: int32Of(file.Insertions), Deletions: int32Of(file.Deletions), Binary: file.Binary,
	}
}

// showPatch answers a request for the patch.
func (f *Fleet) showPatch(ctx context.Context, r *fleetv1.ShowTaskChangesRequest) (*fleetv1.ShowTaskChangesResponse, error) {
	if err := portionIn(r.PatchOffset, r.PatchLimit, nil).Validate("patch_"); err != nil {
		return nil, err
	}
	since, err := sinceIn(r.GetSince())
	if err != nil {
		return nil, err
	}
	offset := int(r.GetPatchOffset())
	c, patch, more, err := f.svc.TaskPatch(ctx, service.PatchRequest{
		TaskID: r.GetTaskId(), Path: r.GetPath(), Since: since, Offset: offset, Limit: int(r.GetPatchLimit()),
	})
	if err != nil {
		return nil, err
	}
	text, encoding := payloadOf(patch)
	resp := &fleetv1.ShowTaskChangesResponse{Changes: changesOf(c), Patch: &text, PatchEncoding: encoding}
	if more {
		resp.PatchNextOffset = new(int32Of(offset + len(patch)))
	}
	return resp, nil
}

func sinceIn(s fleetv1.ShowTaskChangesRequest_Since) (service.ChangesSince, error) {
	switch s {
	case fleetv1.ShowTaskChangesRequest_since_unspecified, fleetv1.ShowTaskChangesRequest_task:
		return service.SinceTask, nil
	case fleetv1.ShowTaskChangesRequest_work:
		return service.SinceWork, nil
	case fleetv1.ShowTaskChangesRequest_review:
		return service.SinceReview, nil
	}
	return "", fleet.InvalidField("since", "since is %d: it must be task, work or review", s)
}

func changesOf(c *fleet.Changes) *fleetv1.TaskChanges {
	if c == nil {
		return nil
	}
	return &fleetv1.TaskChanges{
		Base: c.Base, Commit: c.Commit, Ref: c.Ref, Branch: textOf(c.Branch), Commits: int32Of(c.Commits), Dirty: c.Dirty, Pushed: c.Pushed,
		Files: int32Of(c.FileCount), Insertions: int32Of(c.Insertions), Deletions: int32Of(c.Deletions), ObservedAt: timeOf(c.At), Problem: optional(textOf(c.Problem)),
		LeftOut: listOf(c.LeftOut, textOf),
	}
}
