package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

const (
	maxWaitSeconds = 50  // how long one call waits at most
	maxWaitTasks   = 100 // how many tasks one call waits for at most
	// answerTime is how long after the deadline of a wait the server may still answer.
	answerTime = 5 * time.Second
)

func (p *program) newTaskWait() *cobra.Command {
	var agents []string
	var anyOf, orQuestion bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID...",
		Short: "Wait until tasks have ended",
		Long: `Wait until all of the tasks have ended, or with --any until one has. Give the ids of
tasks, or name agents with --agent. For an agent, the command waits for the task that
the agent works on, or else for its last task.

The exit code tells how the tasks ended: 0 all completed, 8 one failed, 9 one was
stopped, 10 tasks still run. Tasks can still run when --timeout is over or, with
--or-question, when one of them waits for an answer.`,
		Example: `  fleet task wait 3f2a... 77b1...
  fleet task wait --agent papi --agent sony --any
  fleet task wait --agent papi --timeout 10m || fleet task stop papi`,
		Args: cobra.ArbitraryArgs,
		RunE: p.action(func(ctx context.Context, s *session, ids []string) error {
			w := taskWait{s: s, anyOf: anyOf, orQuestion: orQuestion}
			if s.cmd.Flags().Changed("timeout") {
				w.deadline = s.deps.Now().Add(limit)
			}
			for _, name := range agents {
				id, err := s.currentTask(ctx, name)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			if len(ids) == 0 {
				return usagef("ID is missing: %s; or give an agent with --agent", s.cmd.UseLine())
			}
			slices.Sort(ids)
			return w.wait(ctx, slices.Compact(ids))
		}),
	}
	cmd.Flags().StringArrayVar(&agents, "agent", nil, "wait for the task of `AGENT`; can be repeated")
	cmd.Flags().BoolVar(&anyOf, "any", false, "end when one of the tasks has ended")
	cmd.Flags().BoolVar(&orQuestion, "or-question", false, "end also when one of the tasks waits for an answer to a question")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "wait for at most `DURATION`, such as 10m; 0 checks once (default: no limit)")
	return cmd
}

// currentTask returns the id of the task that the agent works on, or else of its newest task.
func (s *session) currentTask(ctx context.Context, name string) (string, error) {
	req := &fleetv1.ListTasksRequest{AgentName: name, LastAgent: true, Status: fleetv1.Task_running, PageSize: proto.Int32(1)}
	resp, err := s.fleet.ListTasks(ctx, req)
	if err == nil && len(resp.GetTasks()) == 0 {
		req.Status = fleetv1.Task_status_unspecified
		resp, err = s.fleet.ListTasks(ctx, req)
	}
	if err == nil && len(resp.GetTasks()) == 0 {
		err = Fail(ExitNotFound, fmt.Sprintf(`start one with "fleet task run %s ..."`, name), "the agent %s has had no task yet", name)
	}
	if err != nil {
		return "", err
	}
	return resp.GetTasks()[0].GetId(), nil
}

// taskWait waits for tasks with as many calls as needed.
type taskWait struct {
	s          *session
	anyOf      bool
	orQuestion bool            // the wait also ends when a task waits for an answer
	deadline   time.Time       // zero means no limit
	reported   map[string]bool // tasks whose end was reported
}

// wait waits for the tasks, prints them, and returns the verdict about them.
func (w *taskWait) wait(ctx context.Context, ids []string) error {
	s := w.s
	if (w.anyOf || w.orQuestion) && len(ids) > maxWaitTasks {
		return usagef("--any and --or-question wait for at most %d tasks, got %d", maxWaitTasks, len(ids))
	}
	w.reported = map[string]bool{}
	label := "waiting for " + ids[0]
	if len(ids) > 1 {
		label = fmt.Sprintf("waiting for %d tasks", len(ids))
	}
	p := s.startProgress(label, s.deps.Now())
	defer p.stop()

	all := &fleetv1.WaitTasksResponse{Done: true}
	var messages []string
	for part := range slices.Chunk(ids, maxWaitTasks) {
		resp, err := w.waitForPart(ctx, part)
		if err != nil {
			return err
		}
		all.Tasks = append(all.Tasks, resp.GetTasks()...)
		all.Done = all.Done && resp.GetDone()
		messages = append(messages, resp.GetMessage())
	}
	all.Message = strings.Join(slices.Compact(messages), " ")
	p.stop()
	const withAgents = true
	if err := s.print(all, nil, func() { s.showTasks(all.GetTasks(), withAgents, "") }); err != nil {
		return err
	}
	return w.verdict(all)
}

// waitForPart waits for up to maxWaitTasks tasks. It returns when the wait is over, as anyOf and orQuestion define it, or when the
// deadline has passed. It fails if the server, for example during an outage, does not answer soon after the deadline.
func (w *taskWait) waitForPart(ctx context.Context, ids []string) (*fleetv1.WaitTasksResponse, error) {
	req := &fleetv1.WaitTasksRequest{TaskIds: ids, Mode: fleetv1.WaitTasksRequest_all, OrQuestion: w.orQuestion}
	if w.anyOf {
		req.Mode = fleetv1.WaitTasksRequest_any
	}
	for {
		seconds, callCtx, cancel := int32(maxWaitSeconds), ctx, func() {}
		if !w.deadline.IsZero() {
			left := max(0, w.deadline.Sub(w.s.deps.Now()))
			seconds = int32(min(maxWaitSeconds, math.Ceil(left.Seconds())))
			callCtx, cancel = context.WithTimeout(ctx, left+answerTime)
		}
		req.TimeoutSeconds = &seconds
		resp, err := w.s.fleet.WaitTasks(callCtx, req)
		timedOut := callCtx.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && timedOut:
			return nil, &failure{code: ExitTimeout, reason: "TIMED_OUT", message: "the server did not answer within the time given with --timeout", hint: "the same command waits again"}
		case err != nil:
			return nil, err
		}
		w.reportEnds(resp.GetTasks(), len(ids))
		if resp.GetDone() || seconds < maxWaitSeconds {
			return resp, nil
		}
	}
}

// reportEnds reports each task that has ended, once. It reports nothing if the command waits for a single task.
func (w *taskWait) reportEnds(tasks []*fleetv1.Task, total int) {
	for _, t := range tasks {
		if hasEnded(t.GetStatus()) && !w.reported[t.GetId()] && total > 1 {
			w.reported[t.GetId()] = true
			w.s.note("%s of %s: %s", t.GetId(), t.GetAgentName(), t.GetStatus())
		}
	}
}

// hasEnded reports whether a task with the status has ended.
func hasEnded(s fleetv1.Task_Status) bool {
	return s == fleetv1.Task_completed || s == fleetv1.Task_failed || s == fleetv1.Task_stopped
}

// newEndError returns an error that says how the task ended, if the task failed or was stopped. Otherwise it returns nil.
func newEndError(t interface {
	GetId() string
	GetAgentName() string
	GetStatus() fleetv1.Task_Status
	GetReason() string
},
) error {
	f := &failure{
		hint:    fmt.Sprintf(`"fleet task show %s" tells more`, t.GetId()),
		details: map[string]any{"task_id": t.GetId(), "agent_name": t.GetAgentName(), "status": t.GetStatus().String()},
	}
	switch t.GetStatus() {
	case fleetv1.Task_failed:
		f.code, f.reason, f.message = ExitFailed, "TASK_FAILED", fmt.Sprintf("the task %s of %s failed", t.GetId(), t.GetAgentName())
	case fleetv1.Task_stopped:
		f.code, f.reason, f.message = ExitStopped, "TASK_STOPPED", fmt.Sprintf("the task %s of %s was stopped", t.GetId(), t.GetAgentName())
	default:
		return nil
	}
	reason := strings.TrimSpace(t.GetReason())
	if by, ok := strings.CutPrefix(reason, "stopped "); ok && t.GetStatus() == fleetv1.Task_stopped {
		f.message += " " + by
	} else if reason != "" {
		f.message += ": " + reason
	}
	return f
}

// verdict returns an error that reports the first task that failed, or else the first that was stopped, or else how many
// tasks wait for an answer (only with --or-question) or still run. It returns nil if all tasks have completed or, with --any, if one
// has completed and none has failed or was stopped.
func (w *taskWait) verdict(resp *fleetv1.WaitTasksResponse) error {
	for _, status := range []fleetv1.Task_Status{fleetv1.Task_failed, fleetv1.Task_stopped} {
		if i := slices.IndexFunc(resp.GetTasks(), func(t *fleetv1.Task) bool { return t.GetStatus() == status }); i >= 0 {
			return newEndError(resp.GetTasks()[i])
		}
	}
	running, waiting := 0, 0
	for _, t := range resp.GetTasks() {
		if !hasEnded(t.GetStatus()) {
			running++
			if t.GetWaiting() {
				waiting++
			}
		}
	}
	switch {
	case w.orQuestion && waiting > 0 && (!w.anyOf || running == len(resp.GetTasks())):
		return &failure{
			code: ExitTimeout, reason: "WAITING", message: fmt.Sprintf("%d of %d tasks wait for an answer", waiting, len(resp.GetTasks())),
			hint: `see "fleet questions"`, details: map[string]any{"waiting": waiting},
		}
	case !resp.GetDone():
		return &failure{
			code: ExitTimeout, reason: "TIMED_OUT", message: fmt.Sprintf("%d of %d tasks still run", running, len(resp.GetTasks())),
			hint: "the same command waits again", details: map[string]any{"running": running},
		}
	}
	return nil
}
