package cli

import (
	"bufio"
	"context"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentDelete() *cobra.Command {
	var yes, keepUnsaved bool
	var requestID string
	cmd := &cobra.Command{
		Use:     "delete AGENT...",
		Aliases: []string{"rm"},
		Short:   "Delete agents and their workspaces",
		Long: `Delete agents and their workspaces, even while they are busy. The history of their
tasks is kept. If work in a workspace may exist nowhere else, Fleet keeps it if it
can. The command prints what is kept and how to get it back, and what may be lost.

On a terminal the command asks for confirmation, and asks again if an agent may have
work that exists only in its workspace. Elsewhere it needs --yes, and deletes such
agents too. With --keep-unsaved it deletes no agent with such work.`,
		Example: `  fleet agent delete papi
  fleet agent delete papi sony --yes
  fleet agent delete papi --yes --keep-unsaved
  fleet agent list --status offline -q | xargs fleet agent delete --yes`,
		Args:              args("AGENT..."),
		ValidArgsFunction: p.completeAgents(),
		RunE: p.action(func(ctx context.Context, s *session, names []string) error {
			if requestID != "" && len(names) > 1 {
				return usagef("--request-id works for one agent only: delete the agents one at a time")
			}
			if !yes {
				if err := s.confirm(ctx, "Delete "+strings.Join(names, ", ")+" with everything in the workspace?"); err != nil {
					return err
				}
			}
			var first error
			for _, name := range names {
				err := s.deleteAgent(ctx, name, requestID, keepUnsaved || !yes)
				if !yes && !keepUnsaved && reasonOf(err) == fleetv1.ErrorReason_UNSAVED_WORK.String() {
					s.tell(s.explain(ctx, err, s.target))
					if err = s.confirm(ctx, "Delete "+name+" anyway?"); err == nil {
						err = s.deleteAgent(ctx, name, requestID, false)
					}
				}
				switch {
				case err == nil:
				case first == nil:
					first = err
				default: // the first error is reported at the end
					s.tell(s.explain(ctx, err, s.target))
				}
				if ctx.Err() != nil {
					break
				}
			}
			return first
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "delete without asking")
	cmd.Flags().BoolVar(&keepUnsaved, "keep-unsaved", false, "do not delete an agent with work that exists only in its workspace")
	addRequestID(cmd, &requestID)
	return cmd
}

// deleteAgent deletes the agent. If keepUnsaved is set, the error is UNSAVED_WORK for an agent with work that exists only in
// its workspace.
func (s *session) deleteAgent(ctx context.Context, name, requestID string, keepUnsaved bool) error {
	var resp *fleetv1.DeleteAgentResponse
	err := s.during(ctx, name, "deleting "+name, func() (err error) {
		resp, err = s.fleet.DeleteAgent(ctx, &fleetv1.DeleteAgentRequest{AgentName: name, RequestId: requestID, KeepUnsaved: &keepUnsaved})
		return err
	})
	return s.print(resp, err, func() { s.say(resp.GetMessage(), resp.GetDeletedAgent().GetName()) })
}

// confirm asks a yes or no question on the terminal. Without a terminal only --yes confirms.
func (s *session) confirm(ctx context.Context, question string) error {
	if !terminalOf(s.deps.Stdin, s.deps.Getenv).is() || !s.screen.onErr.is() {
		return &failure{code: ExitUsage, reason: "USAGE", message: "there is no terminal to ask for confirmation", hint: "add --yes to delete without it"}
	}
	answers := make(chan string, 1)
	go func() { // reading from a terminal cannot be cancelled; the process ends soon after Ctrl-C
		line, _ := bufio.NewReader(s.deps.Stdin).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	s.screen.prompt(printable(question) + " [y/N] ")
	select {
	case <-ctx.Done():
		s.screen.line("")
		return context.Cause(ctx)
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return Fail(ExitError, "", "nothing was deleted")
	}
}
