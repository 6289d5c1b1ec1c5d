package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskQueue() *cobra.Command {
	var task taskFlags
	var when queueFlags
	var hold bool
	var role string
	var maxAttempts int32
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
			req.Role, req.MaxAttempts = role, &maxAttempts
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
	cmd.Flags().Int32Var(&maxAttempts, "max-attempts", 3, "let the task fail `N` times for a reason that may pass, such as an overloaded API")
	cmd.Flags().StringVar(&role, "role", "", "the `ROLE` of the agents of project:NAME (default: the project's)")
	cmd.Flags().BoolVar(&hold, "hold", false, "keep the task from starting until \"fleet queue release ID\"")
	return p.addBulk(callsTool(cmd, "queue_task"), "agents", bulkCommand{
		takesSeveral: true,
		operation:    fleetv1.PlanBulkRequest_queue, progress: "queueing tasks", request: &task.req, flags: []string{"label", "priority", "timeout", "max-cost"},
		names: func(args []string) []string { return args[:len(args)-1] },
		fill: func(s *session, bulk *fleetv1.PlanBulkRequest, args []string) (err error) {
			bulk.Labels, bulk.Priority, bulk.TimeoutSeconds, bulk.MaxCostUsd = task.req.GetLabels(), when.priority, task.req.TimeoutSeconds, task.req.MaxCostUsd
			bulk.Text, err = s.readArgument(args[len(args)-1], "description")
			return err
		},
	})
}

// queueFlags are the flags that decide when a queued task starts.
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

// dependencies returns the dependencies that the flags of addDependencies give.
func (q *queueFlags) dependencies() (all []*fleetv1.Dependency) {
	for _, id := range q.after {
		all = append(all, &fleetv1.Dependency{TaskId: id, GiveResult: q.giveResult})
	}
	for _, id := range q.afterAnyEnd {
		all = append(all, &fleetv1.Dependency{TaskId: id, Ended: true, GiveResult: q.giveResult})
	}
	return all
}

// parseTarget returns the name of the target's agent, pool or project. The other two results are empty.
func parseTarget(target string) (agent, pool, project string) {
	if name, ok := strings.CutPrefix(target, "pool:"); ok {
		return "", name, ""
	}
	if name, ok := strings.CutPrefix(target, "project:"); ok {
		return "", "", name
	}
	return target, "", ""
}

// queueRequest returns the request to queue a task for the target, with the values of the flags.
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
