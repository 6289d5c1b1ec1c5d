package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// agentResponse is the response to a call that changes the state of an agent.
type agentResponse interface {
	proto.Message
	GetAgent() *fleetv1.Agent
	GetMessage() string
	GetUnfinished() bool
}

// stateTexts are the texts of a command that changes the state of an agent.
type stateTexts struct {
	progress     string // labels the progress line
	targetState  string // the state of the agent in which the command ends
	nextHint     string // a hint about the next command, with %s for the agent's name
	retryCommand string // the command that continues the wait, with %s for the agent's name
}

// stateCommand makes the command call a method that changes the state of an agent, for each of its arguments, and wait until
// the change is finished. It repeats an unfinished call with the same request.
func stateCommand[Q proto.Message](p *program, cmd *cobra.Command, t stateTexts, req Q, call func(context.Context, *session, Q) (agentResponse, error)) *cobra.Command {
	var wait waitFlag
	field := req.ProtoReflect().Descriptor().Fields().ByName("agent_name")
	cmd.RunE = p.action(func(ctx context.Context, s *session, names []string) error {
		if err := checkRequestID(req, names); err != nil {
			return err
		}
		return forEachAgent(ctx, s, t.progress, names, func(ctx context.Context, name string) (agentResponse, error) {
			agentReq := proto.CloneOf(req)
			agentReq.ProtoReflect().Set(field, protoreflect.ValueOfString(name))
			return s.awaitAgent(ctx, wait, t, name, func(ctx context.Context) (agentResponse, error) { return call(ctx, s, agentReq) })
		}, func(_ int, resp agentResponse, err error) error {
			return s.print(resp, err, func() {
				ref := s.ref(resp.GetAgent().GetName(), resp.GetAgent().GetOwner())
				s.printResult(resp.GetMessage(), ref)
				s.hint(t.nextHint, ref)
			})
		})
	})
	addRequestID(cmd, req)
	wait.addTo(cmd, t.targetState)
	return cmd
}

// awaitAgent repeats the call until the change is finished, and returns the last response. After the time of --wait, it
// returns the error of newNotReadyError.
func (s *session) awaitAgent(ctx context.Context, wait waitFlag, t stateTexts, name string, call func(context.Context) (agentResponse, error)) (resp agentResponse, err error) {
	err = s.repeatUntilFinished(ctx, wait, func(ctx context.Context) (bool, error) {
		a, err := call(ctx)
		if err != nil {
			return false, err
		}
		resp = a
		return a.GetUnfinished(), nil
	}, func() error {
		var last *fleetv1.Agent
		if resp != nil {
			last = resp.GetAgent()
		}
		return s.newNotReadyError(ctx, last, name, t.targetState, fmt.Sprintf(t.retryCommand, name))
	})
	return resp, err
}

const (
	giveWorkHint   = `Give it work: fleet task run %s "..." --follow`
	startAgainHint = "Start it again: fleet agent start %s"
)

func (p *program) newAgentStart() *cobra.Command {
	var yes bool
	var mu sync.Mutex                                     // held while a question is asked; also guards restarts
	restarts := map[string]*fleetv1.RestartAgentRequest{} // confirmed requests, which replace StartAgent, by agent
	req := &fleetv1.StartAgentRequest{}
	cmd := stateCommand(p, &cobra.Command{
		Use:   "start [AGENT]...",
		Short: "Start the workspaces of agents",
		Long: `Start the workspace of a stopped or failed agent and wait until the agent is ready.
If it is already starting, the command only waits.

If the workspace is unhealthy, the agent's task may still run in it, and starting the
workspace again ends the task. On a terminal the command then asks for confirmation.
Elsewhere it needs --yes.

Next, give it a task with "fleet task run AGENT ...".`,
		Example: `  fleet agent start papi
  fleet agent start papi sony
  fleet agent start -l team=web`,
	}, stateTexts{progress: "starting", targetState: "ready", nextHint: giveWorkHint, retryCommand: "fleet agent start %s"}, req, func(ctx context.Context, s *session, req *fleetv1.StartAgentRequest) (agentResponse, error) {
		mu.Lock()
		restart := restarts[req.GetAgentName()]
		mu.Unlock()
		if restart == nil {
			resp, err := s.fleet.StartAgent(ctx, req)
			if reasonOf(err) != fleetv1.ErrorReason_AGENT_BUSY.String() { // starting it would end the agent's task
				return resp, err
			}
			mu.Lock() // one question at a time
			defer mu.Unlock()
			if err := s.confirmRestart(ctx, req.GetAgentName(), err, yes); err != nil {
				return nil, err
			}
			restart = &fleetv1.RestartAgentRequest{AgentName: req.GetAgentName(), RequestId: req.GetRequestId()}
			restarts[req.GetAgentName()] = restart
		}
		return s.fleet.RestartAgent(ctx, restart)
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "start an unhealthy workspace again without asking, which ends the agent's task")
	return p.addBulk(cmd, "agents", bulkCommand{operation: fleetv1.PlanBulkRequest_start, progress: "starting", request: req})
}

// confirmRestart asks whether to start an unhealthy workspace again, which ends the agent's task. startErr is the
// error of StartAgent.
func (s *session) confirmRestart(ctx context.Context, name string, startErr error, yes bool) error {
	switch {
	case yes:
		return nil
	case !s.isInteractive():
		f := *s.explain(ctx, startErr, s.target)
		f.hint += fmt.Sprintf("; %q starts it again and ends the task", "fleet agent start "+name+" --yes")
		return &f
	}
	return s.confirm(ctx, "The workspace of "+name+" is unhealthy, and its task may still run there. Start it again, and end the task?", "", "nothing was started")
}

func (p *program) newAgentStop() *cobra.Command {
	req := &fleetv1.StopAgentRequest{}
	cmd := stateCommand(p, &cobra.Command{
		Use:   "stop [AGENT]...",
		Short: "Stop the workspaces of agents and keep what is in them",
		Long: `Stop the workspace of an agent and keep what is in it. A running task is stopped
first. "fleet task stop AGENT" stops only the task.`,
		Example: `  fleet agent stop papi
  fleet agent stop papi sony
  fleet agent stop -l team=web --dry-run`,
	}, stateTexts{progress: "stopping", targetState: "stopped", nextHint: startAgainHint, retryCommand: "fleet agent stop %s"}, req, func(ctx context.Context, s *session, req *fleetv1.StopAgentRequest) (agentResponse, error) {
		return s.fleet.StopAgent(ctx, req)
	})
	return p.addBulk(cmd, "agents", bulkCommand{operation: fleetv1.PlanBulkRequest_stop, progress: "stopping", question: "Stop", request: req})
}

func (p *program) newAgentRestart() *cobra.Command {
	req := &fleetv1.RestartAgentRequest{}
	cmd := stateCommand(p, &cobra.Command{
		Use:   "restart [AGENT]...",
		Short: "Stop and start the workspaces of agents",
		Long: `Stop and start the workspace of an agent, with another role if --role is given. A
running task is stopped first. A restart that cannot succeed is refused before
anything stops.

An agent keeps the version of its project with which it was made. If "fleet agent
show AGENT" says that it is outdated, --update gives it the newest version.`,
		Example: `  fleet agent restart papi
  fleet agent restart papi --role reviewer
  fleet agent restart papi --update`,
	}, stateTexts{progress: "restarting", targetState: "ready", nextHint: giveWorkHint, retryCommand: "fleet agent start %s"}, req, func(ctx context.Context, s *session, req *fleetv1.RestartAgentRequest) (agentResponse, error) {
		return s.fleet.RestartAgent(ctx, req)
	})
	cmd.Flags().StringVar(&req.Role, "role", "", "give the agent `ROLE` (default: it keeps its role)")
	cmd.Flags().BoolVar(&req.TakeOver, "take-over", false, "take an agent that belongs to another Fleet or to a person, and end what runs in it")
	cmd.Flags().BoolVar(&req.Update, "update", false, "give the agent the newest version of its project")
	addParameters(cmd, &req.Parameters, "change a parameter of the project; `NAME=VALUE`, can be repeated")
	return p.addBulk(cmd, "agents", bulkCommand{
		operation: fleetv1.PlanBulkRequest_restart, progress: "restarting", question: "Restart", request: req, flags: []string{"role", "update"},
		fill: func(_ *session, bulk *fleetv1.PlanBulkRequest, _ []string) error {
			bulk.Role, bulk.Update = req.GetRole(), req.GetUpdate()
			return nil
		},
	})
}
