package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// powered is the answer to starting, stopping or restarting an agent.
type powered interface {
	proto.Message
	GetAgent() *fleetv1.Agent
	GetMessage() string
}

// power returns a command that starts, stops or restarts an agent's workspace. doing labels the progress line. next is
// a hint about the next command, with %s for the agent's name.
func (p *program) power(cmd *cobra.Command, doing, next string, call func(ctx context.Context, s *session, name, requestID string) (powered, error)) *cobra.Command {
	var requestID string
	cmd.Args, cmd.ValidArgsFunction = args("AGENT"), p.completeAgent()
	cmd.RunE = p.action(func(ctx context.Context, s *session, args []string) error {
		var resp powered
		err := s.during(ctx, args[0], doing+" "+args[0], func() (err error) {
			resp, err = call(ctx, s, args[0], requestID)
			return err
		})
		return s.print(resp, err, func() {
			s.say(resp.GetMessage(), resp.GetAgent().GetName())
			s.hint(next, resp.GetAgent().GetName())
		})
	})
	addRequestID(cmd, &requestID)
	return cmd
}

const (
	giveWork   = `Give it work: fleet task run %s "..." --follow`
	startAgain = "Start it again: fleet agent start %s"
)

func (p *program) newAgentStart() *cobra.Command {
	return p.power(&cobra.Command{
		Use:   "start AGENT",
		Short: "Start the workspace of an agent",
		Long: `Start the workspace of a stopped or failed agent and wait until the agent is ready.

Next, give it a task with "fleet task run AGENT ...".`,
		Example: `  fleet agent start papi`,
	}, "starting", giveWork, func(ctx context.Context, s *session, name, requestID string) (powered, error) {
		return s.fleet.StartAgent(ctx, &fleetv1.StartAgentRequest{AgentName: name, RequestId: requestID})
	})
}

func (p *program) newAgentStop() *cobra.Command {
	return p.power(&cobra.Command{
		Use:   "stop AGENT",
		Short: "Stop the workspace of an agent and keep what is in it",
		Long: `Stop the workspace of an agent and keep what is in it. A running task is stopped
first. "fleet task stop AGENT" stops only the task.`,
		Example: `  fleet agent stop papi`,
	}, "stopping", startAgain, func(ctx context.Context, s *session, name, requestID string) (powered, error) {
		return s.fleet.StopAgent(ctx, &fleetv1.StopAgentRequest{AgentName: name, RequestId: requestID})
	})
}

func (p *program) newAgentRestart() *cobra.Command {
	var role string
	cmd := p.power(&cobra.Command{
		Use:   "restart AGENT",
		Short: "Stop and start the workspace of an agent",
		Long: `Stop and start the workspace of an agent, with another role if --role is given. A
running task is stopped first.`,
		Example: `  fleet agent restart papi
  fleet agent restart papi --role reviewer`,
	}, "restarting", giveWork, func(ctx context.Context, s *session, name, requestID string) (powered, error) {
		return s.fleet.RestartAgent(ctx, &fleetv1.RestartAgentRequest{AgentName: name, Role: role, RequestId: requestID})
	})
	cmd.Flags().StringVar(&role, "role", "", "give the agent `ROLE` (default: it keeps its role)")
	complete(cmd, "role", p.completeRoles())
	return cmd
}
