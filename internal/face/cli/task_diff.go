package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskDiff() *cobra.Command {
	var stat, sinceReview, whole bool
	req := &fleetv1.ShowTaskChangesRequest{}
	cmd := &cobra.Command{
		Use:   "diff ID|AGENT",
		Short: "Show what a task changed",
		Long: `Show what a task, or the newest task of an agent, changed in the repository that the
agent works in, as a patch for "git apply". With --stat, list the changed files instead.

The changes include what the agent did not commit. They are kept however the task
ends, also after the agent is deleted.

If the task goes on with the work of an earlier one, for example because a review has
requested changes, --whole shows all of the work. --since-review shows what is new since
you have reviewed it.`,
		Example: `  fleet task diff 3f2a...
  fleet task diff papi
  fleet task diff 3f2a... --stat
  fleet task diff 3f2a... --path main.go | git apply
  fleet task diff papi --since-review`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			switch {
			case stat && req.GetPath() != "":
				return usagef("--path selects a part of the patch: leave --stat out")
			case sinceReview && whole:
				return usagef("--since-review and --whole contradict each other: give one of them")
			case sinceReview:
				req.Since = fleetv1.ShowTaskChangesRequest_review
			case whole:
				req.Since = fleetv1.ShowTaskChangesRequest_work
			}
			return s.withTask(ctx, args[0], func(id string) error {
				req.TaskId = id
				if stat {
					return s.printTaskFiles(ctx, req)
				}
				return s.printTaskPatch(ctx, req)
			})
		}),
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "list the changed files")
	cmd.Flags().StringVar(&req.Path, "path", "", "only the changes of the file at `PATH`")
	cmd.Flags().BoolVar(&sinceReview, "since-review", false, "only what is new since your last review")
	cmd.Flags().BoolVar(&whole, "whole", false, "also the changes of the tasks whose work it goes on with")
	return cmd
}

// printTaskFiles lists the files that the task changed. It reads the whole list.
func (s *session) printTaskFiles(ctx context.Context, req *fleetv1.ShowTaskChangesRequest) error {
	s.conn.readsWholeLists = true
	resp, err := s.fleet.ShowTaskChanges(ctx, req)
	return s.print(resp, err, func() {
		emptyText := "The task changed no files."
		switch {
		case resp.GetChanges().Problem != nil:
			emptyText = "It is not known which files the task changed."
		case len(resp.GetChanges().GetLeftOut()) > 0:
			emptyText = "No changed files are kept."
		}
		changeCount := func(count func(*fleetv1.FileChange) int32) any {
			return func(f *fleetv1.FileChange) string {
				if f.GetBinary() {
					return "binary"
				}
				return fmt.Sprint(count(f))
			}
		}
		printList(s, resp.GetFiles(), emptyText, column{"", valueIf(s.quiet, "path")}, column{"CHANGE", "kind"}, column{"ADDED", changeCount((*fleetv1.FileChange).GetInsertions)}, column{"REMOVED", changeCount((*fleetv1.FileChange).GetDeletions)},
			column{"FILE", func(f *fleetv1.FileChange) string {
				if f.From != nil {
					return f.GetFrom() + " -> " + f.GetPath()
				}
				return f.GetPath()
			}})
		s.hint("%s", changesText(resp.GetChanges()))
		s.hintLeftOut(resp.GetChanges())
		if n := int(resp.GetChanges().GetFiles()); n > len(resp.GetFiles()) {
			s.hint("Only the first %d files are listed.", len(resp.GetFiles()))
		}
	})
}

// hintLeftOut reports on standard error which changes were not kept. Without this, a patch on standard output would look complete.
func (s *session) hintLeftOut(c *fleetv1.TaskChanges) {
	for _, what := range c.GetLeftOut() {
		s.hint("Not kept: %s", what)
	}
}

// printTaskPatch reads the patch page by page. It prints each page at once for people, and the whole patch in one document for programs.
func (s *session) printTaskPatch(ctx context.Context, req *fleetv1.ShowTaskChangesRequest) error {
	req.Patch, req.PatchLimit = true, proto.Int32(maxPageBytes)
	var patch []byte
	for {
		resp, err := s.fleet.ShowTaskChanges(ctx, req)
		if err == nil {
			patch, err = s.printOrAppendPage(patch, "patch", resp.GetPatch(), resp.GetPatchEncoding())
		}
		if err != nil {
			return err
		}
		if req.PatchOffset = resp.PatchNextOffset; req.PatchOffset == nil {
			resp.Patch, resp.PatchEncoding = encodeText(patch)
			return s.print(resp, nil, func() { s.hintLeftOut(resp.GetChanges()) })
		}
	}
}

// changesText summarizes a task's changes in one line. It returns "" if c is nil.
func changesText(c *fleetv1.TaskChanges) string {
	switch {
	case c == nil:
		return ""
	case c.Problem != nil:
		return "not known: " + c.GetProblem()
	}
	text := fmt.Sprintf("%s, +%d -%d, %s", countText(c.GetFiles(), "file"), c.GetInsertions(), c.GetDeletions(), countText(c.GetCommits(), "commit"))
	if c.GetBranch() != "" {
		text += " on " + c.GetBranch()
	}
	if c.GetDirty() {
		text += ", not all committed"
	}
	switch {
	case c.GetCommits() > 0 && c.GetPushed():
		text += ", pushed"
	case c.GetCommits() > 0:
		text += ", not pushed"
	}
	if n := len(c.GetLeftOut()); n > 0 {
		text += fmt.Sprintf(", %d not kept", n)
	}
	return text
}
