package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// agentAnswer is the answer to starting, stopping or restarting an agent.
type agentAnswer interface {
	proto.Message
	GetAgent() *fleetv1.Agent
	GetMessage() string
	GetUnfinished() bool
}

// powerTexts describes a command that starts, stops or restarts an agent's workspace.
type powerTexts struct {
	doing string // labels the progress line
	done  string // what the agent is then
	next  string // a hint about the next command, with %s for the agent's name
	again string // the command that waits on, with %s for the agent's name
}

// power returns the command. begin returns the call for an agent; the call is repeated with the same request.
func (p *program) power(cmd *cobra.Command, w powerTexts, begin func(ctx context.Context, s *session, name, requestID string) (func(context.Context) (agentAnswer, error), error)) *cobra.Command {
	var requestID string
	var wait waitFlag
	cmd.RunE = p.action(func(ctx context.Context, s *session, args []string) error {
		call, err := begin(ctx, s, args[0], requestID)
		if err != nil {
			return err
		}
		var resp agentAnswer
		err = s.during(ctx, args[0], w.doing+" "+args[0], func() error {
			return s.finish(ctx, wait, func(ctx context.Context) (bool, error) {
				r, err := call(ctx)
				if err == nil {
					resp = r
				}
				return err == nil && r.GetUnfinished(), err
			}, func() error {
				var last *fleetv1.Agent
				if resp != nil {
					last = resp.GetAgent()
				}
				return s.notYet(ctx, last, args[0], w.done, fmt.Sprintf(w.again, args[0]))
			})
		})
		return s.print(resp, err, func() {
			s.say(resp.GetMessage(), resp.GetAgent().GetName())
			s.hint(w.next, resp.GetAgent().GetName())
		})
	})
	addRequestID(cmd, &requestID)
	wait.addTo(cmd, w.done)
	return cmd
}

const (
	giveWork   = `Give it work: fleet task run %s "..." --follow`
	startAgain = "Start it again: fleet agent start %s"
)

func (p *program) newAgentStart() *cobra.Command {
	var yes bool
	cmd := p.power(&cobra.Command{
		Use:   "start AGENT",
		Short: "Start the workspace of an agent",
		Long: `Start the workspace of a stopped or failed agent and wait until the agent is ready.
If it is already starting, the command only waits.

If the workspace is unhealthy, the agent's task may still run in it, and starting the
workspace again ends the task. On a terminal the command then asks for confirmation.
Elsewhere it needs --yes.

Next, give it a task with "fleet task run AGENT ...".`,
		Example: `  fleet agent start papi`,
	}, powerTexts{"starting", "ready", giveWork, "fleet agent start %s"}, func(ctx context.Context, s *session, name, requestID string) (func(context.Context) (agentAnswer, error), error) {
		start := &fleetv1.StartAgentRequest{AgentName: name, RequestId: requestID}
		restart := &fleetv1.RestartAgentRequest{AgentName: name, RequestId: requestID}
		anyway := false
		return func(limited context.Context) (agentAnswer, error) {
			if anyway {
				return s.fleet.RestartAgent(limited, restart)
			}
			resp, err := s.fleet.StartAgent(limited, start)
			if !endsTask(err) {
				return resp, err
			}
			if !yes {
				if !s.isInteractive() {
					f := *s.explain(ctx, err, s.target)
					f.hint += fmt.Sprintf("; %q starts it again and ends the task", "fleet agent start "+name+" --yes")
					return nil, &f
				}
				if err := s.confirm(ctx, "The workspace of "+name+" is unhealthy, and its task may still run there. Start it again, and end the task?", "", "nothing was started"); err != nil {
					return nil, err
				}
			}
			anyway = true
			return s.fleet.RestartAgent(limited, restart)
		}, nil
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "start an unhealthy workspace again without asking, which ends the agent's task")
	return cmd
}

// endsTask reports whether the server refused to start an agent because that would end the agent's task.
func endsTask(err error) bool {
	return reasonOf(err) == "AGENT_BUSY"
}

func (p *program) newAgentStop() *cobra.Command {
	return p.power(&cobra.Command{
		Use:   "stop AGENT",
		Short: "Stop the workspace of an agent and keep what is in it",
		Long: `Stop the workspace of an agent and keep what is in it. A running task is stopped
first. "fleet task stop AGENT" stops only the task.`,
		Example: `  fleet agent stop papi`,
	}, powerTexts{"stopping", "stopped", startAgain, "fleet agent stop %s"}, func(ctx context.Context, s *session, name, requestID string) (func(context.Context) (agentAnswer, error), error) {
		req := &fleetv1.StopAgentRequest{AgentName: name, RequestId: requestID}
		return func(ctx context.Context) (agentAnswer, error) { return s.fleet.StopAgent(ctx, req) }, nil
	})
}

func (p *program) newAgentRestart() *cobra.Command {
	var role string
	var update, takeOver bool
	var values params
	cmd := p.power(&cobra.Command{
		Use:   "restart AGENT",
		Short: "Stop and start the workspace of an agent",
		Long: `Stop and start the workspace of an agent, with another role if --role is given. A
running task is stopped first. A restart that cannot succeed is refused before
anything stops.

An agent keeps the version of its project with which it was made. If "fleet agent
show AGENT" says that it is outdated, --update gives it the newest version.`,
		Example: `  fleet agent restart papi
  fleet agent restart papi --role reviewer
  fleet agent restart papi --update`,
	}, powerTexts{"restarting", "ready", giveWork, "fleet agent start %s"}, func(ctx context.Context, s *session, name, requestID string) (func(context.Context) (agentAnswer, error), error) {
		parameters, err := values.values()
		req := &fleetv1.RestartAgentRequest{AgentName: name, Role: role, Update: update, TakeOver: takeOver, Parameters: parameters, RequestId: requestID}
		return func(ctx context.Context) (agentAnswer, error) { return s.fleet.RestartAgent(ctx, req) }, err
	})
	cmd.Flags().StringVar(&role, "role", "", "give the agent `ROLE` (default: it keeps its role)")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "make an agent of another Fleet or of a person this Fleet's, and end what runs in it")
	cmd.Flags().BoolVar(&update, "update", false, "give the agent the newest version of its project")
	values.addTo(cmd, "change a parameter of the project; `NAME=VALUE`, can be repeated")
	return cmd
}
