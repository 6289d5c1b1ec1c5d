package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
)

// taskFlags are the flags that describe a task to start or to queue.
type taskFlags struct {
	req         fleetv1.StartAgentTaskRequest
	schema      string
	attachments []string
	queue       bool // queue the task if the agent cannot start it now
}

// addTo adds the flags except --queue.
func (t *taskFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&t.req.Checks, "check", nil, "the task completes only if `COMMAND` succeeds in the agent's tree; can be repeated")
	addOptional(f, &t.req.Retries, "retries", "the agent may try again `N` times if checks fail (default 1)")
	addOptional(f, &t.req.Model, "model", "the `MODEL` for this task")
	addOptional(f, &t.req.Effort, "effort", "how much the model thinks, such as low, medium or high: `LEVEL`")
	addOptional(f, &t.req.MaxTurns, "max-turns", "the task fails after `N` turns")
	addOptional(f, &t.req.MaxCostUsd, "max-cost", "the task fails when it has cost `USD`")
	addOptional(f, &t.req.AppendSystemPrompt, "append-system-prompt", "instructions for this task, after those of the role: `TEXT`")
	f.StringVar(&t.schema, "output-schema", "", "the task has to return an object that matches this JSON `SCHEMA`, or @FILE")
	f.StringArrayVar(&t.attachments, "attach", nil, "give the agent this `FILE` for the task; can be repeated")
	addSeconds(cmd, "check-timeout", "a check may take `DURATION` (default 10m)", func(n int32) { t.req.CheckTimeoutSeconds = &n })
	addSeconds(cmd, "timeout", "stop the task after `DURATION`, such as 30m, and count it as failed (default: the server's)", func(n int32) { t.req.TimeoutSeconds = &n })
	addLabels(cmd, &t.req.Labels, "the task")
	addRequestID(cmd, &t.req)
}

// addQueue adds the flag --queue.
func (t *taskFlags) addQueue(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.queue, "queue", false, "if the agent is busy or offline, queue the task, which starts when the agent is idle")
}

// readFiles puts the output schema and the attachments into the request.
func (t *taskFlags) readFiles(s *session) error {
	if s.cmd.Flags().Changed("output-schema") {
		text, err := s.readArgument(t.schema, "output schema")
		if err != nil {
			return err
		}
		t.req.OutputSchema = &structpb.Struct{}
		if err := t.req.OutputSchema.UnmarshalJSON([]byte(text)); err != nil {
			return usagef("--output-schema is not a JSON object; write {\"type\": \"object\", \"properties\": ...}, or @FILE")
		}
	}
	for _, file := range t.attachments {
		data, err := s.readFile(maxAttachmentSize, file, "attachment")
		if err != nil {
			return err
		}
		t.req.Attachments = append(t.req.Attachments, &fleetv1.NewAttachment{Name: filepath.Base(file), Content: []byte(data)})
	}
	return nil
}

// maxAttachmentSize is the largest attachment that the API accepts, in bytes.
const maxAttachmentSize = 20 << 20

// request returns the request for the agent, with the values of the flags. It reads the files and the standard input that the
// arguments and flags name.
func (t *taskFlags) request(s *session, agent, description string) (*fleetv1.StartAgentTaskRequest, error) {
	var err error
	if t.req.TaskDescription, err = s.readArgument(description, "description"); err != nil {
		return nil, err
	}
	t.req.AgentName = agent
	return &t.req, t.readFiles(s)
}

// start starts the task. If the agent is busy or offline and --queue is set, it queues the task.
func (t *taskFlags) start(ctx context.Context, s *session, agent, description string) (*fleetv1.StartAgentTaskResponse, error) {
	if _, err := t.request(s, agent, description); err != nil {
		return nil, err
	}
	return t.startOrQueue(ctx, s)
}

// startOrQueue sends the request. If the agent is busy or offline and --queue is set, it queues the task.
func (t *taskFlags) startOrQueue(ctx context.Context, s *session) (*fleetv1.StartAgentTaskResponse, error) {
	resp, err := s.fleet.StartAgentTask(ctx, &t.req)
	reason := reasonOf(err)
	mustWait := reason == fleetv1.ErrorReason_AGENT_BUSY.String() || reason == fleetv1.ErrorReason_AGENT_OFFLINE.String()
	// An earlier command with the same request id may have queued the task.
	if t.queue && (mustWait || isInvalid(err, "request_id")) {
		return t.enqueue(ctx, s)
	}
	return resp, err
}

// startAfterPerson does the same as start, but if a person uses the agent's program, it waits until they have left it.
func (t *taskFlags) startAfterPerson(ctx context.Context, s *session, agent, description string) (*fleetv1.StartAgentTaskResponse, error) {
	if _, err := t.request(s, agent, description); err != nil {
		return nil, err
	}
	for {
		resp, err := t.startOrQueue(ctx, s)
		if err == nil {
			return resp, nil
		}
		f := s.explain(ctx, err, s.target)
		attachedTask, _ := f.details["task_id"].(string)
		if f.details["attached"] == nil || attachedTask == "" {
			return nil, err
		}
		s.note("%s. The task starts when they leave it.", f.message)
		p := s.startProgress("waiting for "+agent, s.deps.Now())
		_, err = (&taskWait{s: s}).waitForPart(ctx, []string{attachedTask})
		p.stop()
		if err != nil {
			return nil, err
		}
	}
}

// enqueue queues the task, and says so.
func (t *taskFlags) enqueue(ctx context.Context, s *session) (*fleetv1.StartAgentTaskResponse, error) {
	resp, err := s.fleet.QueueTask(ctx, t.copyToQueueRequest())
	if err != nil {
		return nil, err
	}
	s.note("The task waits. See why: fleet queue why %s", resp.GetTask().GetId())
	return &fleetv1.StartAgentTaskResponse{Task: resp.GetTask(), Message: resp.GetMessage()}, nil
}

// printStarted prints the id of the started task on standard output, and the next step on standard error.
func (s *session) printStarted(resp interface {
	proto.Message
	GetTask() *fleetv1.Task
},
) error {
	return s.print(resp, nil, func() {
		t := resp.GetTask()
		s.screen.print(printable(t.GetId()) + "\n")
		s.hint("%s works on it. Follow it: fleet watch --task %s --follow", t.GetAgentName(), t.GetId())
		s.hint("Wait for its end: fleet task wait %s", t.GetId())
		s.hint("Stop it: fleet task stop %s", s.ref(t.GetAgentName(), t.GetOwner()))
	})
}

const descriptionHelp = `DESCRIPTION says what is to be done; "-" reads it from standard input, and "@FILE"
from a file.`

func (p *program) newTaskStart() *cobra.Command {
	var task taskFlags
	cmd := &cobra.Command{
		Use:   "start AGENT DESCRIPTION|-|@FILE",
		Short: "Start a task and print its id",
		Long: `Start a task on an idle agent, print the id of the task, and return at once.
` + descriptionHelp + `

With --check, the task completes only if the command succeeds. If it fails, the
agent gets its output and tries again.

Next, wait with "fleet task wait ID", or follow with "fleet watch --task ID --follow".`,
		Example: `  fleet task start papi "make test"
  fleet task start papi "fix the login" --check "go test ./..." --retries 2
  id=$(fleet task start papi @task.md -q)`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := task.start(ctx, s, args[0], args[1])
			if err != nil {
				return err
			}
			return s.printStarted(resp)
		}),
	}
	task.addTo(cmd)
	task.addQueue(cmd)
	return cmd
}

func (p *program) newTaskRun() *cobra.Command {
	var task taskFlags
	var follow, stopOnInterrupt bool
	cmd := &cobra.Command{
		Use:   "run AGENT DESCRIPTION|-|@FILE",
		Short: "Start a task and, with --follow, stay until it has ended",
		Long: `Start a task on an idle agent.
` + descriptionHelp + `

If a person uses the agent's program ("fleet agent attach"), the command says so, and
waits until they have left it.

With --follow, the agent's output goes to standard output as it arrives; its steps and
the outcome go to standard error. If the connection breaks, the output continues where
it stopped. The exit code tells how the task ended: 0 completed, 8 failed, 9 stopped.
With -o json or yaml, standard output has only the ended task; add -v to see what the
agent writes.

Ctrl-C stops following, and the task goes on. A second Ctrl-C right after it stops
the task too. With --stop-on-interrupt, the first Ctrl-C stops the task.

Without --follow, the command prints the task's id, as "fleet task start" does.`,
		Example: `  fleet task run papi "make test" --follow
  fleet task run papi @task.md -f --timeout 30m
  git diff | fleet task run rev-1 - -f > review.md`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if stopOnInterrupt && !follow {
				return usagef("--stop-on-interrupt needs --follow")
			}
			resp, err := task.startAfterPerson(ctx, s, args[0], args[1])
			if err != nil {
				return err
			}
			if !follow {
				return s.printStarted(resp)
			}
			mode := ctrlCDetaches
			if stopOnInterrupt {
				mode = ctrlCStopsTask
			}
			return s.follow(ctx, resp.GetTask(), mode)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what the agent writes until the task has ended")
	cmd.Flags().BoolVar(&stopOnInterrupt, "stop-on-interrupt", false, "with --follow: Ctrl-C stops the task")
	task.addTo(cmd)
	task.addQueue(cmd)
	return cmd
}
