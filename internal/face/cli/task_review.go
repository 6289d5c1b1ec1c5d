package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskReview() *cobra.Command {
	var approve, requestChanges bool
	var comments []string
	req := &fleetv1.ReviewTaskRequest{}
	cmd := &cobra.Command{
		Use:   "review ID|AGENT [TEXT]",
		Short: "Approve the work of a task, comment on it, or request changes",
		Long: `Review the work of a task, or of the newest task of an agent. "fleet task diff" shows it.

With --request-changes, TEXT and the comments on lines become the next task of the same
agent, in the same conversation. A --comment is PATH:LINE:TEXT, or PATH:TEXT for a whole
file; PATH:-LINE:TEXT is on a line that the change removes.

Without TEXT, comments and flags, the work and its reviews are shown.`,
		Example: `  fleet task review papi
  fleet task review papi --approve
  fleet task review 3f2a... --request-changes "the tests are missing"
  fleet task review 3f2a... --request-changes --comment "api/server.go:31:this must not panic"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			switch {
			case approve && requestChanges:
				return usagef("--approve and --request-changes contradict each other: give one of them")
			case approve:
				req.Verdict = fleetv1.Review_approve
			case requestChanges:
				req.Verdict = fleetv1.Review_request_changes
			}
			if len(args) > 1 {
				req.Text = args[1]
			}
			for _, text := range comments {
				c, err := parseComment(text)
				if err != nil {
					return err
				}
				req.Comments = append(req.Comments, c)
			}
			if !approve && !requestChanges && req.GetText() == "" && len(comments) == 0 {
				return s.withTask(ctx, args[0], func(id string) error {
					resp, err := s.fleet.ListReviews(ctx, &fleetv1.ListReviewsRequest{TaskId: id})
					return s.print(resp, err, func() { s.showReviews(resp) })
				})
			}
			var err error
			if req.TaskId, err = s.taskID(ctx, args[0]); err != nil {
				return err
			}
			resp, err := s.fleet.ReviewTask(ctx, req)
			return s.print(resp, err, func() {
				s.printResult(resp.GetMessage(), resp.GetReview().GetId())
				switch {
				case resp.GetReview().GetNextTaskId() != "":
					s.hint("Follow it: fleet watch --task %s --follow", resp.GetReview().GetNextTaskId())
				case approve:
					s.hint("Land it: fleet task land %s", shortID(req.GetTaskId()))
				}
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&approve, "approve", false, "the work is good")
	f.BoolVar(&requestChanges, "request-changes", false, "give the agent the task to make changes")
	f.StringArrayVar(&comments, "comment", nil, "comment on a line: `PATH:LINE:TEXT`; can be repeated")
	addRequestID(cmd, req)
	return callsTool(callsTool(cmd, "review_task", "task_id"), "list_reviews")
}

// parseComment reads PATH:LINE:TEXT, PATH:-LINE:TEXT or PATH:TEXT. A negative line is a line that the change removes.
func parseComment(text string) (*fleetv1.ReviewComment, error) {
	path, rest, ok := strings.Cut(text, ":")
	if !ok || path == "" || strings.TrimSpace(rest) == "" {
		return nil, usagef("--comment %q is not PATH:LINE:TEXT", text)
	}
	number, comment, ok := strings.Cut(rest, ":")
	line, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return &fleetv1.ReviewComment{Path: path, Text: strings.TrimSpace(rest)}, nil
	}
	if line == 0 {
		return nil, usagef("--comment %q: lines are counted from 1", text)
	}
	return &fleetv1.ReviewComment{Path: path, Line: int32(max(line, -line)), Old: line < 0, Text: strings.TrimSpace(comment)}, nil
}

func (p *program) newTaskReviews() *cobra.Command {
	req := &fleetv1.ListReviewsRequest{}
	var landed bool
	cmd := methodCommand(p, &cobra.Command{
		Use:   "reviews",
		Short: "List the work that has not landed",
		Long: `List the work of tasks that has neither landed nor been abandoned, newest first. "fleet task
review ID" shows the reviews of one task.`,
		Example: `  fleet task reviews
  fleet task reviews --project webshop -l team=a`,
		PreRun: func(*cobra.Command, []string) {
			if landed {
				req.States = []fleetv1.Landing_State{fleetv1.Landing_landed}
			}
		},
	}, fleetv1.FleetServiceClient.ListReviews, req, func(s *session, resp *fleetv1.ListReviewsResponse) {
		printWork(s, resp.GetTasks(), "There is no work that has not landed.")
		if n := len(resp.GetTasks()); n > 0 && n < int(resp.GetTotalCount()) {
			s.hint("%d of %d tasks; --limit N shows more.", n, resp.GetTotalCount())
		}
	})
	f := cmd.Flags()
	f.StringVar(&req.Project, "project", "", "only work on `PROJECT`")
	f.BoolVar(&landed, "landed", false, "list the work that has landed instead")
	addSelector(cmd, &req.Selector, "tasks")
	addOptional(f, &req.Limit, "limit", "show at most `N` tasks (default 20)")
	return cmd
}

func printWork(s *session, tasks []*fleetv1.ReviewedTask, emptyText string) {
	printList(s, tasks, emptyText,
		column{"ID", func(t *fleetv1.ReviewedTask) string { return s.shownID(t.GetTaskId()) }},
		column{"AGENT", "agent_name"}, column{"STATE", "landing.state"},
		column{"FILES", "landing.files"}, column{"LINES", func(t *fleetv1.ReviewedTask) string { return linesText(t.GetLanding()) }},
		column{"BRANCH", "landing.agent_branch"}, column{"ENDED", (*fleetv1.ReviewedTask).GetCompletedAt},
		column{"TASK", func(t *fleetv1.ReviewedTask) string { return truncate(oneLine(t.GetTitle()), descriptionWidth) }})
}

// linesText returns how many lines the work adds and removes, such as "+10 -3". It returns "" if the work changes no files.
func linesText(l *fleetv1.Landing) string {
	if l.GetFiles() == 0 {
		return ""
	}
	return fmt.Sprintf("+%d -%d", l.GetInsertions(), l.GetDeletions())
}

// showReviews shows the work of a task and its reviews.
func (s *session) showReviews(resp *fleetv1.ListReviewsResponse) {
	if len(resp.GetTasks()) == 0 {
		s.screen.print("The task has no work that could land.\n")
		return
	}
	t := resp.GetTasks()[0]
	lines := append([]cardLine{{"Id", t.GetTaskId(), ""}, {"Agent", t.GetAgentName(), ""}, {"Task", t.GetTitle(), ""}}, landingLines(t.GetLanding())...)
	for _, r := range t.GetReviews() {
		lines = append(lines, cardLine{"Review", cell{enumWords(r.GetVerdict()) + " by " + r.GetBy(), colorOf(r.GetVerdict())}, r.GetText()})
		for _, c := range r.GetComments() {
			lines = append(lines, cardLine{"", commentPosition(c) + ": " + oneLine(c.GetText()), ""})
		}
	}
	s.screen.print(s.card(lines...))
}

// commentPosition returns the position of the comment in the form that parseComment reads: PATH, PATH:LINE or PATH:-LINE.
func commentPosition(c *fleetv1.ReviewComment) string {
	switch {
	case c.GetLine() == 0:
		return c.GetPath()
	case c.GetOld():
		return fmt.Sprintf("%s:-%d", c.GetPath(), c.GetLine())
	}
	return fmt.Sprintf("%s:%d", c.GetPath(), c.GetLine())
}

// landingLines returns the lines of a card that show the state of the work.
func landingLines(l *fleetv1.Landing) []cardLine {
	if l == nil {
		return nil
	}
	state := cell{enumWords(l.GetState()), colorOf(l.GetState())}
	lines := []cardLine{{"Work", state, l.GetProblem()}}
	if l.GetInto() != "" {
		commit := ""
		if l.GetLandedSha() != "" {
			commit = "commit " + shortID(l.GetLandedSha())
		}
		lines = append(lines, cardLine{"Lands in", l.GetInto(), commit})
	}
	for _, c := range l.GetConflicts() {
		lines = append(lines, cardLine{"Conflict", c.GetPath(), c.GetKind()})
	}
	lines = append(lines, cardLine{"Goes on in", valueIf(l.GetNextTaskId() != "", "task "+l.GetNextTaskId()), ""})
	if p := l.GetPublished(); p != nil {
		lines = append(lines, cardLine{"Pushed to", p.GetBranch() + " of " + p.GetRemote(), p.GetPullRequest()})
	}
	return lines
}
