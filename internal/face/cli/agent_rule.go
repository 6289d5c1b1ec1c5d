package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentRemoveRule() *cobra.Command {
	req := &fleetv1.RemoveAgentRuleRequest{}
	cmd := &cobra.Command{
		Use:   "remove-rule AGENT RULE",
		Short: "Remove what an answer has allowed an agent",
		Long: `Remove a rule that somebody has allowed the agent by answering a question with
--remember. From its next task on, the agent asks again. "fleet agent show" lists the
rules.`,
		Example: `  fleet agent remove-rule papi "Bash(go test *)"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.AgentName, req.Rule = args[0], args[1]
			resp, err := s.fleet.RemoveAgentRule(ctx, req)
			return s.print(resp, err, func() { s.say(resp.GetMessage(), args[0]) })
		}),
	}
	addRequestID(cmd, &req.RequestId)
	return cmd
}
