package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentCreate() *cobra.Command {
	req := &fleetv1.CreateAgentRequest{}
	var specFile string
	var wait waitFlag
	cmd := &cobra.Command{
		Use:   "create NAME --project PROJECT",
		Short: "Create an agent in a workspace of its own",
		Long: `Create an agent and wait until it is ready for work. A name has 1 to 20 letters,
digits and single hyphens. The specification says what the agent is for: its
objective, context and deliverables.

If the agent is not ready after the time of --wait, the command ends with the exit
code 10. The agent continues to start, and "fleet agent start NAME" waits for it.

Next, give it a task with "fleet task run NAME ...".`,
		Example: `  fleet agent create papi --project shell --spec "Keep the build green"
  fleet agent create sony --project web --role reviewer --spec-file spec.md
  fleet agent create anna --project web --param region=eu --spec "Fix the login"
  git log -1 --format=%B | fleet agent create rev-1 --project web --spec-file -`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.Name = args[0]
			var err error
			switch flags := s.cmd.Flags(); {
			case req.GetProject() == "":
				return usagef("--project is missing: \"fleet project list\" shows the projects")
			case flags.Changed("spec") == flags.Changed("spec-file"):
				return usagef("say what the agent is for: give either --spec TEXT or --spec-file FILE")
			case specFile != "":
				if req.Spec, err = s.readFile(maxText, specFile, "specification"); err != nil {
					return err
				}
			}
			t := stateTexts{progress: "creating", targetState: "ready", retryCommand: "fleet agent start %s"}
			var resp agentResponse
			err = s.withEvents(ctx, req.GetName(), t.progress+" "+req.GetName(), func() (err error) {
				resp, err = s.awaitAgent(ctx, wait, t, req.GetName(), func(ctx context.Context) (agentResponse, error) { return s.fleet.CreateAgent(ctx, req) })
				return err
			})
			return s.print(resp, err, func() {
				a := resp.GetAgent()
				s.printResult(resp.GetMessage(), a.GetName())
				if a.GetStatus() == fleetv1.Agent_idle {
					s.hint(`Give it work: fleet task run %s "..." --follow`, a.GetName())
				} else {
					s.hint("See what it is doing: fleet watch --agent %s --follow", a.GetName())
				}
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Project, "project", "", "the agent works on `PROJECT`; \"fleet project list\" shows the projects")
	f.StringVar(&req.Role, "role", "", "the agent behaves as `ROLE`; \"fleet role list PROJECT\" shows the roles and the default")
	f.StringVar(&req.Spec, "spec", "", "the specification of the agent is `TEXT`")
	f.StringVar(&specFile, "spec-file", "", "read the specification from `FILE`, or from standard input with -")
	addParameters(cmd, &req.Parameters, "set a parameter of the project, see \"fleet project list -o wide\"; `NAME=VALUE`, can be repeated")
	addLabels(cmd, &req.Labels, "the agent")
	wait.addTo(cmd, "ready")
	addRequestID(cmd, req)
	return cmd
}
