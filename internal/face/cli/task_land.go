package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskLand() *cobra.Command {
	req := &fleetv1.LandTasksRequest{}
	var noWait bool
	cmd := &cobra.Command{
		Use:   "land [ID]...",
		Short: "Land the work of tasks in a branch of their project",
		Long: `Land the work of tasks, or of the newest tasks of agents, in a branch of their project: by
default the one at which its agents begin. Each is combined with the newest commit of
the branch, and lands if the checks of the project pass on the result. Nobody's files
are overwritten: a branch that somebody has checked out moves only if their files can
follow.

Work that conflicts or fails the checks becomes a task of its agent, whose result lands
by itself. The command waits for that too; Ctrl-C stops waiting, and nothing else.

Instead of tasks, --selector or --project selects all completed tasks that nobody has
requested changes of, oldest first. --dry-run says which work can be combined.`,
		Example: `  fleet task land papi
  fleet task land papi sony --into release --strategy rebase
  fleet task land -l team=a --dry-run`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			for _, ref := range args {
				id, err := s.taskID(ctx, ref)
				if err != nil {
					return err
				}
				req.TaskIds = append(req.TaskIds, id)
			}
			cursor := s.latestCursor(ctx)
			resp, err := s.fleet.LandTasks(ctx, req)
			if err != nil || req.GetDryRun() || noWait || len(resp.GetTasks()) == 0 {
				if err := s.print(resp, err, func() { s.showLandings(resp) }); err != nil {
					return err
				}
				if req.GetDryRun() && slices.ContainsFunc(resp.GetTasks(), func(t *fleetv1.LandedTask) bool { return !t.GetCanLand() }) {
					return Fail(ExitError, "", "some work cannot land as it is")
				}
				return nil
			}
			return s.followLandings(ctx, resp, cursor)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Project, "project", "", "land all such work on `PROJECT`")
	addSelector(cmd, &req.Selector, "tasks")
	f.StringVar(&req.Into, "into", "", "the `BRANCH` to land in")
	addEnum(cmd, &req.Strategy, fleetv1.LandTasksRequest_Strategy_name, "strategy", "`how`: squash into one commit, rebase the commits, or merge (default squash)")
	f.StringVarP(&req.Message, "message", "m", "", "`MESSAGE` of the commit, for one task")
	addOptional(f, &req.Batch, "batch", "check up to `N` tasks together (default 1: each commit passes the checks by itself)")
	f.BoolVar(&req.NoFix, "no-fix", false, "do not make a task of a conflict or of failed checks")
	f.BoolVar(&req.DryRun, "dry-run", false, "only say which work can be combined with the branch")
	f.BoolVar(&noWait, "no-wait", false, "do not wait until the work has landed")
	addRequestID(cmd, req)
	return callsTool(cmd, "land_tasks")
}

// showLandings lists what happens to the work of each task.
func (s *session) showLandings(resp *fleetv1.LandTasksResponse) {
	printList(s, resp.GetTasks(), "No work matches. See what has not landed: fleet task reviews",
		column{"ID", func(t *fleetv1.LandedTask) string { return s.shownID(t.GetTaskId()) }},
		column{"AGENT", "agent_name"}, column{"INTO", "landing.into"},
		column{"RESULT", func(t *fleetv1.LandedTask) string {
			switch {
			case t.CanLand == nil:
				return enumWords(t.GetLanding().GetState())
			case t.GetCanLand():
				return "can land"
			}
			return t.GetProblem()
		}},
		column{"TASK", func(t *fleetv1.LandedTask) string { return truncate(oneLine(t.GetTitle()), descriptionWidth) }})
	if len(resp.GetTasks()) > 0 {
		s.note("%s", resp.GetMessage())
	}
}

// landings follows the work of tasks until all of it has landed or cannot land.
type landings struct {
	s           *session
	tasks       []*fleetv1.LandedTask
	openWork    map[string]*fleetv1.LandedTask // work that has neither landed nor failed to land, by the ids of the tasks that have it now
	failedCount int                            // number of tasks whose work does not land
}

// errAllSettled ends the feed when all work has landed or cannot land.
var errAllSettled = errors.New("all work is settled")

// settle reports the work of the task if it has landed or cannot land. If another task continues the work, settle looks at that task.
func (l *landings) settle(ctx context.Context, id string) error {
	for id != "" && l.openWork[id] != nil {
		next, landing, final, err := l.s.landingState(ctx, id)
		if err != nil {
			return err
		}
		t := l.openWork[id]
		if landing != nil {
			t.Landing = landing
		}
		switch {
		case final:
			delete(l.openWork, id)
			switch {
			case landing.GetState() != fleetv1.Landing_landed:
				l.failedCount++
				l.s.note("%s: %s does not land%s", t.GetAgentName(), quoteTitle(t), afterColon(landing.GetProblem()))
			case l.s.output.forPeople():
				l.s.screen.print(fmt.Sprintf("%s: %s landed in %s, commit %s\n", printable(t.GetAgentName()), quoteTitle(t), printable(landing.GetInto()), shortID(landing.GetLandedSha())))
			}
			return nil
		case next == "" || next == id:
			return nil
		}
		l.openWork[next] = t
		delete(l.openWork, id)
		id = next
	}
	return nil
}

// settleAll settles the work of all tasks. The error is errAllSettled if no work is open afterwards.
func (l *landings) settleAll(ctx context.Context) error {
	for _, t := range l.tasks {
		if err := l.settle(ctx, t.GetTaskId()); err != nil {
			return err
		}
	}
	return l.checkOpen()
}

// checkOpen returns errAllSettled if no work is open.
func (l *landings) checkOpen() error {
	if len(l.openWork) == 0 {
		return errAllSettled
	}
	return nil
}

// handle settles the work that the event is about.
func (l *landings) handle(ctx context.Context, e *fleetv1.Event) error {
	t := l.openWork[e.GetTaskId()]
	if t == nil || e.GetType() != fleetv1.Event_task_landing && e.GetType() != fleetv1.Event_task_ended {
		return nil
	}
	if e.GetType() == fleetv1.Event_task_landing {
		l.s.note("%s: %s", t.GetAgentName(), printable(e.GetText()))
	}
	if err := l.settle(ctx, e.GetTaskId()); err != nil {
		return err
	}
	return l.checkOpen()
}

// followLandings shows what happens to the work until all of it has landed or cannot land. For programs, it then prints the response with the
// final states.
func (s *session) followLandings(ctx context.Context, resp *fleetv1.LandTasksResponse, cursor string) error {
	l := &landings{s: s, tasks: resp.GetTasks(), openWork: map[string]*fleetv1.LandedTask{}}
	for _, t := range l.tasks {
		l.openWork[t.GetTaskId()] = t
	}
	feed := s.newEventFeed(&fleetv1.WatchFleetRequest{Cursor: cursor, Follow: true, Quiet: true})
	feed.responded = true // the server has just answered, so transient errors are retried
	p := s.startProgress(fmt.Sprintf("landing the work of %d tasks", len(l.openWork)), s.deps.Now())
	defer p.stop()
	err := l.settleAll(ctx)
	if err == nil {
		err = feed.run(ctx, func(e *fleetv1.Event) error { return l.handle(ctx, e) }, func() (bool, error) {
			err := l.settleAll(ctx)
			if errors.Is(err, errAllSettled) {
				return true, nil
			}
			return false, err
		})
	}
	if err != nil && !errors.Is(err, errAllSettled) {
		return err
	}
	if !s.output.forPeople() {
		resp.Message = fmt.Sprintf("The work of %d of %d tasks has landed", len(l.tasks)-l.failedCount, len(l.tasks))
		if err := s.print(resp, nil, nil); err != nil {
			return err
		}
	}
	if l.failedCount > 0 {
		return Fail(ExitError, "fleet task reviews shows why", "the work of %d of %d tasks does not land", l.failedCount, len(l.tasks))
	}
	return nil
}

// landingState returns the state of the task's work, and the task that continues the work, if there is one. final reports
// whether the state stays as it is unless somebody acts.
func (s *session) landingState(ctx context.Context, id string) (next string, l *fleetv1.Landing, final bool, err error) {
	resp, err := s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: id})
	if err != nil {
		return "", nil, false, err
	}
	t := resp.GetTask()
	switch l = t.GetLanding(); {
	case l.GetState() == fleetv1.Landing_replaced:
		return l.GetNextTaskId(), l, false, nil
	case l == nil: // a task that continues the work of another task
		return "", l, hasEnded(t.GetStatus()), nil
	case l.GetState() == fleetv1.Landing_queued:
		return "", l, false, nil
	case l.GetState() == fleetv1.Landing_landed || l.GetNextTaskId() == "":
		return "", l, true, nil
	}
	return l.GetNextTaskId(), l, false, nil
}

func quoteTitle(t *fleetv1.LandedTask) string {
	return fmt.Sprintf("%q", truncate(oneLine(t.GetTitle()), descriptionWidth))
}
