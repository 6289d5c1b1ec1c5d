package cli

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

// newOrder adds the flags that "task run" and "task start" share.
type newOrder struct {
	limit     time.Duration
	requestID string
	checks    checkFlags
}

func (o *newOrder) addTo(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.limit, "timeout", 0, "the task is stopped and has failed after `DURATION`, such as 30m (default the server's own)")
	complete(cmd, "timeout", cobra.NoFileCompletions)
	addRequestID(cmd, &o.requestID)
	o.checks.addTo(cmd)
}

// start starts the task.
func (o *newOrder) start(ctx context.Context, s *session, agent, description string) (*fleetv1.StartAgentTaskResponse, error) {
	text, err := s.text(description, "description")
	if err != nil {
		return nil, err
	}
	req := &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: text, RequestId: o.requestID}
	if s.cmd.Flags().Changed("timeout") {
		seconds := math.Ceil(o.limit.Seconds())
		if seconds < 1 || seconds > math.MaxInt32 {
			return nil, usagef("the --timeout %s of a task must be a second or more", o.limit)
		}
		n := int32(seconds)
		req.TimeoutSeconds = &n
	}
	if err := o.checks.fill(s, req); err != nil {
		return nil, err
	}
	return s.fleet.StartAgentTask(ctx, req)
}

// tellStarted prints the id of the started task on standard output, and the next step on standard error.
func (s *session) tellStarted(resp *fleetv1.StartAgentTaskResponse) error {
	return s.print(resp, func() {
		t := resp.GetTask()
		s.screen.raw(printable(t.GetId()) + "\n")
		s.hint("%s works on it. Follow it: fleet watch --task %s --follow", t.GetAgentName(), t.GetId())
		s.hint("Wait for its end: fleet task wait %s", t.GetId())
		s.hint("Stop it: fleet task stop %s", t.GetAgentName())
	})
}

const describe = `The description is the second argument; "-" reads it from standard input, and
"@FILE" from a file.`

func (p *program) newTaskStart() *cobra.Command {
	var order newOrder
	cmd := &cobra.Command{
		Use:   "start AGENT DESCRIPTION|-|@FILE",
		Short: "Start a task and print its id",
		Long: `Start a task on an idle agent, print the id of the task, and return at once.
` + describe + `

With --check, the task completes only when the command succeeds; otherwise the
agent is told what it put out and tries again.

What comes next: "fleet task wait ID", or "fleet watch --task ID --follow".`,
		Example: `  fleet task start papi "make test"
  fleet task start papi "fix the login" --check "go test ./..." --retries 2
  id=$(fleet task start papi @task.md -q)`,
		Args:              args("AGENT DESCRIPTION"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := order.start(ctx, s, args[0], args[1])
			if err != nil {
				return err
			}
			return s.tellStarted(resp)
		}),
	}
	order.addTo(cmd)
	return cmd
}

func (p *program) newTaskRun() *cobra.Command {
	var order newOrder
	var follow, stopOnInterrupt bool
	cmd := &cobra.Command{
		Use:   "run AGENT DESCRIPTION|-|@FILE",
		Short: "Start a task and, with --follow, stay until it has ended",
		Long: `Start a task on an idle agent.
` + describe + `

With --follow, what the agent writes goes to standard output as it comes, its
steps and the outcome to standard error, and the exit code tells how the task
ended: 0 completed, 8 failed, 9 stopped. A broken connection is taken up again
where it broke. With -o json or yaml, standard output has the task at its end
and nothing else, and standard error what the agent writes only with -v.

Ctrl-C ends the following and the task goes on; a second Ctrl-C right after it
stops the task too, as the first one does with --stop-on-interrupt.

Without --follow, the id of the task is printed, as "fleet task start" does.`,
		Example: `  fleet task run papi "make test" --follow
  fleet task run papi @task.md -f --timeout 30m
  git diff | fleet task run rev-1 - -f > review.md`,
		Args:              args("AGENT DESCRIPTION"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if stopOnInterrupt && !follow {
				return usagef("--stop-on-interrupt needs --follow")
			}
			resp, err := order.start(ctx, s, args[0], args[1])
			if err != nil {
				return err
			}
			if !follow {
				return s.tellStarted(resp)
			}
			return s.follow(ctx, resp.GetTask(), stopOnInterrupt)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what the agent writes, and end when the task does")
	cmd.Flags().BoolVar(&stopOnInterrupt, "stop-on-interrupt", false, "with --follow: Ctrl-C stops the task")
	order.addTo(cmd)
	return cmd
}
