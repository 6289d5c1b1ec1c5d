package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newQueue() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:   "queue",
		Short: "See and change the tasks that wait to start",
		Long: `A queued task waits until nothing is in its way, and then starts by itself. "fleet task
queue AGENT ..." queues one, and "fleet queue why ID" shows all reasons why it waits.`,
		Example: `  fleet task queue papi "make release" --priority 10
  fleet queue list
  fleet queue why 3f2a1b0c`,
	})
	cmd.AddCommand(
		p.newQueueList(), p.newQueueShow(), p.newQueueWhy(), p.newQueueSet(),
		methodCommand(p, &cobra.Command{
			Use: "hold ID", Short: "Keep a pending task from starting", Example: `  fleet queue hold 3f2a1b0c`,
			Long: `Keep a pending task from starting until "fleet queue release ID".`,
		}, fleetv1.FleetServiceClient.HoldTask, &fleetv1.HoldTaskRequest{}, printMessage[*fleetv1.HoldTaskResponse]),
		methodCommand(p, &cobra.Command{
			Use: "release ID", Short: "Let a held task start", Example: `  fleet queue release 3f2a1b0c`,
			Long: `Let a held task start as soon as nothing else is in its way.`,
		}, fleetv1.FleetServiceClient.ReleaseTask, &fleetv1.ReleaseTaskRequest{}, printMessage[*fleetv1.ReleaseTaskResponse]),
		methodCommand(p, &cobra.Command{
			Use: "stop ID", Short: "Stop a task, whether it waits or runs", Example: `  fleet queue stop 3f2a1b0c`,
			Long: `Stop a task, whether it waits or runs. "fleet task stop AGENT" stops the running task of an
agent.`,
		}, fleetv1.FleetServiceClient.StopTask, &fleetv1.StopTaskRequest{}, printMessage[*fleetv1.StopTaskResponse]),
	)
	return cmd
}

func (p *program) newQueueList() *cobra.Command {
	req := &fleetv1.ListQueueRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the tasks that wait, the next one first",
		Long:  `List the tasks that wait, in the order in which they start, and what each of them waits for.`,
		Example: `  fleet queue list
  fleet queue list papi -l env=prod`,
	}, fleetv1.FleetServiceClient.ListQueue, req, func(s *session, resp *fleetv1.ListQueueResponse) {
		printList(s, resp.GetTasks(), `No task waits. Queue one: fleet task queue AGENT "..."`,
			column{"ID", func(t *fleetv1.QueuedTask) string { return s.shownID(t.GetId()) }},
			column{"POSITION", "queue.position"}, column{"AGENT", queuedFor}, column{"PRIORITY", "queue.priority"}, column{"AGE", (*fleetv1.QueuedTask).GetCreatedAt},
			column{"WAITS FOR", func(t *fleetv1.QueuedTask) string { return reasonsText(t.GetQueue().GetWaits()) }},
			column{"TASK", func(t *fleetv1.QueuedTask) string { return truncate(oneLine(t.GetSummary()), descriptionWidth) }})
		if n := len(resp.GetTasks()); n > 0 && n < int(resp.GetTotalCount()) {
			s.hint("%d of %d tasks; --limit N shows more.", n, resp.GetTotalCount())
		}
	})
	addSelector(cmd, &req.Selector, "tasks")
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` tasks (default 100)")
	return cmd
}

// reasonsText returns the names of the reasons, each once.
func reasonsText(waits []*fleetv1.Wait) string {
	var names []string
	for _, w := range waits {
		if name := strings.ReplaceAll(w.GetReason(), "_", " "); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// queuedFor returns the agent, pool or project that the task is queued for, in the notation of "fleet task queue".
func queuedFor(t *fleetv1.QueuedTask) string {
	switch q := t.GetQueue(); {
	case t.GetAgentName() != "":
		return t.GetAgentName()
	case q.GetPool() != "":
		return "pool:" + q.GetPool()
	default:
		return "project:" + q.GetProject() + " " + q.GetRole()
	}
}

func (p *program) newQueueShow() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "show",
		Short:   "Sum up the tasks that wait",
		Long:    `Sum up the tasks that wait: how many, for how long, and why.`,
		Example: `  fleet queue show`,
	}, fleetv1.FleetServiceClient.ShowQueue, &fleetv1.ShowQueueRequest{}, func(s *session, resp *fleetv1.ShowQueueResponse) {
		lines := []cardLine{{"Waiting", fmt.Sprint(resp.GetPending()), ""}, {"Oldest", resp.GetOldest(), ""}}
		if p := resp.GetPaused(); p != nil {
			lines = append(lines, cardLine{"Paused", p.GetAt(), "by " + p.GetBy() + afterColon(p.GetReason())})
		}
		for _, r := range resp.GetReasons() {
			lines = append(lines, cardLine{upperFirst(strings.ReplaceAll(r.GetReason(), "_", " ")), fmt.Sprint(r.GetTasks()), ""})
		}
		lines = append(lines, cardLine{"Overtaken", "at most " + (time.Duration(resp.GetOvertakeSeconds()) * time.Second).String(), "then a task of the lowest priority comes before new ones"})
		s.screen.output(s.card(lines...))
	})
}

func (p *program) newQueueWhy() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "why ID",
		Short:   "Show why a task waits",
		Long:    `Show all reasons why a task waits, first those that block it now.`,
		Example: `  fleet queue why 3f2a1b0c`,
	}, fleetv1.FleetServiceClient.ShowTask, &fleetv1.ShowTaskRequest{}, func(s *session, resp *fleetv1.ShowTaskResponse) {
		t := resp.GetTask()
		if t.GetQueue() == nil {
			s.screen.print("It does not wait: it is " + enumName(t.GetStatus()) + ".\n")
			return
		}
		for _, w := range t.GetQueue().GetWaits() {
			text := strings.ReplaceAll(w.GetReason(), "_", " ") + ": " + w.GetText()
			if w.GetSince() != nil {
				text += " (for " + s.age(w.GetSince()) + ")"
			}
			if left := w.GetUntil().AsTime().Sub(s.deps.Now()); w.GetUntil() != nil && left > 0 {
				text += " (in " + shortDuration(left) + ")"
			}
			s.screen.print(printable(text) + "\n")
			if w.GetNext() != "" {
				details := map[string]any{"agent_name": w.GetSubject(), "name": w.GetSubject(), "task_id": shortID(t.GetId())}
				s.screen.print(printable("  "+replaceMarked(w.GetNext(), "`", "`", func(tool string) string { return s.commandsFor(nil).quote(tool, details) })) + "\n")
			}
		}
		if len(t.GetQueue().GetWaits()) == 0 {
			s.screen.print("Nothing is in its way: it starts now.\n")
		}
	})
}

// queueFlags are the flags that say when a queued task starts.
type queueFlags struct {
	priority           *int32
	notBefore, expires *timestamppb.Timestamp
	exclusive          string
	after, afterAnyEnd []string
	giveResult         bool
}

func (q *queueFlags) addTo(p *program, cmd *cobra.Command) {
	f := cmd.Flags()
	addOptional(f, &q.priority, "priority", "start before tasks with a lower `PRIORITY`, from -100 to 100 (default 0)")
	p.addLaterTime(cmd, &q.notBefore, "not-before", "do not start before `TIME`, or for a duration such as 2h")
	p.addLaterTime(cmd, &q.expires, "expires", "stop the task if it has not started by `TIME`, or after a duration such as 8h")
	f.StringVar(&q.exclusive, "exclusive", "", "run at most one task with this `KEY` at a time")
	q.addDependencies(cmd)
}

// addDependencies adds the flags for the tasks that must end before the queued task starts.
func (q *queueFlags) addDependencies(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&q.after, "after", nil, "start when the task with this `ID` has completed; can be repeated")
	f.StringArrayVar(&q.afterAnyEnd, "after-end", nil, "start when the task with this `ID` has ended, however; can be repeated")
	f.BoolVar(&q.giveResult, "give-result", false, "add the results of these tasks to the description")
}

func (q *queueFlags) dependencies() (all []*fleetv1.Dependency) {
	for _, id := range q.after {
		all = append(all, &fleetv1.Dependency{TaskId: id, GiveResult: q.giveResult})
	}
	for _, id := range q.afterAnyEnd {
		all = append(all, &fleetv1.Dependency{TaskId: id, Ended: true, GiveResult: q.giveResult})
	}
	return all
}

// addLaterTime adds a flag for a later time, which is given as a time or as the duration until then.
func (p *program) addLaterTime(cmd *cobra.Command, to **timestamppb.Timestamp, name, usage string) {
	cmd.Flags().Func(name, usage, func(text string) (err error) {
		if d, parseErr := parseDuration(text); parseErr == nil {
			*to = timestamppb.New(p.deps.Now().Add(d))
			return nil
		}
		*to, err = parseTime(text, p.deps.Now())
		return err
	})
}

func (p *program) newTaskQueue() *cobra.Command {
	var task taskFlags
	var when queueFlags
	var hold bool
	var role string
	var attempts int32
	cmd := &cobra.Command{
		Use:   "queue [TARGET]... DESCRIPTION|-|@FILE",
		Short: "Queue a task, which starts as soon as it can",
		Long: `Queue a task. It starts by itself as soon as an agent is idle and nothing else is in its
way, and goes on waiting while agents are busy or offline. TARGET is the name of an
agent, pool:NAME for an agent of a pool, or project:NAME for any of your agents in the
project with the role of --role.
` + descriptionHelp + `

"fleet queue why ID" says why it waits, and "fleet task wait ID" waits for its end.`,
		Example: `  fleet task queue papi "make release" --priority 10
  id=$(fleet task queue papi @build.md -q)
  fleet task queue sony "Review it" --after "$id" --give-result
  fleet task queue pool:web "Fix the login"
  fleet task queue project:webshop "Review the last commit" --role reviewer
  fleet task queue papi "nightly" --not-before 2h --expires 8h --exclusive nightly
  fleet task queue -l team=web "Update the dependencies"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req, err := task.queueRequest(s, args[0], args[1])
			if err != nil {
				return err
			}
			req.Role, req.MaxAttempts = role, &attempts
			req.Priority, req.NotBefore, req.Expires, req.Exclusive = when.priority, when.notBefore, when.expires, when.exclusive
			req.DependsOn, req.Hold = when.dependencies(), hold
			resp, err := s.fleet.QueueTask(ctx, req)
			return s.print(resp, err, func() {
				t := resp.GetTask()
				s.screen.print(printable(t.GetId()) + "\n")
				s.hint("It waits for %s. See why: fleet queue why %s", args[0], t.GetId())
			})
		}),
	}
	task.addTo(cmd)
	when.addTo(p, cmd)
	cmd.Flags().Int32Var(&attempts, "max-attempts", 3, "let the task fail `N` times for a reason that may pass, such as an overloaded API")
	cmd.Flags().StringVar(&role, "role", "", "the `ROLE` of the agents of project:NAME (default: the project's)")
	cmd.Flags().BoolVar(&hold, "hold", false, "keep the task from starting until \"fleet queue release ID\"")
	return p.addBulk(callsTool(cmd, "queue_task"), "agents", true, bulkCommand{
		operation: fleetv1.PlanBulkRequest_queue, progress: "queueing tasks", request: &task.req, flags: []string{"label", "priority", "timeout", "max-cost"},
		names: func(args []string) []string { return args[:len(args)-1] },
		fill: func(s *session, bulk *fleetv1.PlanBulkRequest, args []string) (err error) {
			bulk.Priority, bulk.TimeoutSeconds, bulk.MaxCostUsd = when.priority, task.req.TimeoutSeconds, task.req.MaxCostUsd
			if bulk.Labels, err = task.labels.parse("--label"); err != nil {
				return err
			}
			bulk.Text, err = s.readArgument(args[len(args)-1], "description")
			return err
		},
	})
}

// parseTarget returns the agent, the pool or the project that a target names. The other two results are empty.
func parseTarget(target string) (agent, pool, project string) {
	if name, ok := strings.CutPrefix(target, "pool:"); ok {
		return "", name, ""
	}
	if name, ok := strings.CutPrefix(target, "project:"); ok {
		return "", "", name
	}
	return target, "", ""
}

// queueRequest returns the request for the target, with the values of the flags.
func (t *taskFlags) queueRequest(s *session, target, description string) (*fleetv1.QueueTaskRequest, error) {
	agent, pool, project := parseTarget(target)
	if _, err := t.request(s, agent, description); err != nil {
		return nil, err
	}
	req := t.copyToQueueRequest()
	req.Pool, req.Project = pool, project
	return req, nil
}

// copyToQueueRequest returns a QueueTaskRequest with the fields of t.req. QueueTaskRequest has all fields of StartAgentTaskRequest, under
// the same names.
func (t *taskFlags) copyToQueueRequest() *fleetv1.QueueTaskRequest {
	req := &fleetv1.QueueTaskRequest{}
	to := req.ProtoReflect()
	t.req.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(to.Descriptor().Fields().ByName(f.Name()), v)
		return true
	})
	return req
}

func (p *program) newUp() *cobra.Command {
	var task taskFlags
	var role string
	var maxIdle *int32
	cmd := &cobra.Command{
		Use:   "up PROJECT DESCRIPTION|-|@FILE",
		Short: "Create an agent for one task",
		Long: `Create an agent in a project and give it a task. It is named after the task, and deleted
when it has had no task for some time. Its work is kept.
` + descriptionHelp + `

Next, follow with "fleet watch --task ID --follow", or wait with "fleet task wait ID".`,
		Example: `  fleet up webshop "Fix the login"
  id=$(fleet up webshop @task.md --role reviewer -q) && fleet task wait "$id"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req, err := task.queueRequest(s, "", args[1])
			if err != nil {
				return err
			}
			req.Project, req.Role, req.NewAgent, req.MaxIdleSeconds = args[0], role, true, maxIdle
			resp, err := s.fleet.QueueTask(ctx, req)
			return s.print(resp, err, func() {
				t := resp.GetTask()
				s.screen.print(printable(t.GetId()) + "\n")
				s.hint("The agent %s is being created for it. Follow it: fleet watch --task %s --follow", t.GetAgentName(), t.GetId())
			})
		}),
	}
	task.addTo(cmd)
	cmd.Flags().StringVar(&role, "role", "", "the `ROLE` of the agent (default: the project's)")
	addSeconds(cmd, "max-idle", "delete the agent when it has been idle for `DURATION` (default 10m)", func(n int32) { maxIdle = &n })
	return cmd
}

func (p *program) newQueueSet() *cobra.Command {
	var when queueFlags
	req := &fleetv1.UpdateQueuedTaskRequest{}
	cmd := &cobra.Command{
		Use:     "set ID",
		Short:   "Change when a pending task starts",
		Long:    `Change the priority, the times, the key or the dependencies of a pending task.`,
		Example: `  fleet queue set 3f2a1b0c --priority 50`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.TaskId, req.Priority, req.NotBefore, req.Expires = args[0], when.priority, when.notBefore, when.expires
			if s.cmd.Flags().Changed("exclusive") {
				req.Exclusive = &when.exclusive
			}
			req.DependsOn = when.dependencies()
			resp, err := s.fleet.UpdateQueuedTask(ctx, req)
			return s.print(resp, err, func() { s.printResult(resp.GetMessage(), args[0]) })
		}),
	}
	when.addTo(p, cmd)
	addRequestID(cmd, req)
	return callsTool(cmd, "update_queued_task", "task_id")
}
