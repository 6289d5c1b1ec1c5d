package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentDelete() *cobra.Command {
	var yes, keepUnsaved bool
	req := &fleetv1.DeleteAgentRequest{}
	var wait waitFlag
	cmd := &cobra.Command{
		Use:     "delete [AGENT]...",
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
  fleet agent delete -l team=web --dry-run
  fleet agent list --status offline -q | xargs -r fleet agent delete --yes`,
		RunE: p.action(func(ctx context.Context, s *session, names []string) error {
			if err := checkRequestID(req, names); err != nil {
				return err
			}
			if !yes {
				question := "Delete " + strings.Join(names, ", ") + " with everything in the workspace?"
				if err := s.confirm(ctx, question, "add --yes to delete without it", "nothing was deleted"); err != nil {
					return err
				}
			}
			// Without --yes, at first keep the agents with unsaved work, and then ask about each of them.
			options := deleteOptions{wait: wait, requestID: req.GetRequestId(), keepUnsaved: keepUnsaved || !yes}
			unsavedErrs, firstErr := s.deleteAgents(ctx, options, names)
			for i, err := range unsavedErrs {
				name := names[i]
				if err != nil && !keepUnsaved {
					s.printError(s.explain(ctx, err, s.target))
					if err = s.confirm(ctx, "Delete "+name+" anyway?", "add --yes to delete without it", "nothing was deleted"); err == nil {
						options.keepUnsaved = false
						_, err = s.deleteAgents(ctx, options, []string{name})
					}
				}
				switch {
				case err == nil:
				case firstErr == nil:
					firstErr = err
				default: // the first error is reported at the end
					s.printError(s.explain(ctx, err, s.target))
				}
			}
			return firstErr
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "delete without asking")
	cmd.Flags().BoolVar(&keepUnsaved, "keep-unsaved", false, "do not delete an agent with work that exists only in its workspace")
	addRequestID(cmd, req)
	wait.addTo(cmd, "deleted")
	return p.addBulk(cmd, "agents", bulkCommand{
		operation: fleetv1.PlanBulkRequest_delete, progress: "deleting", question: "Delete with everything in their workspaces:", request: req, flags: []string{"keep-unsaved"},
		fill: func(_ *session, bulk *fleetv1.PlanBulkRequest, _ []string) error {
			bulk.KeepUnsaved = keepUnsaved || !yes
			return nil
		},
		retry: func(ctx context.Context, s *session, item *fleetv1.BulkItem) (bool, error) {
			if yes || keepUnsaved || item.GetReason() != fleetv1.ErrorReason_UNSAVED_WORK.String() {
				return false, nil
			}
			name := s.ref(item.GetAgentName(), item.GetOwner())
			s.screen.printErrLine(printable(name + ": " + item.GetMessage()))
			err := s.confirm(ctx, "Delete "+name+" anyway?", "add --yes to delete without it", name+" was not deleted")
			if err == nil {
				_, err = s.deleteAgents(ctx, deleteOptions{wait: wait}, []string{name})
			}
			if err != nil && ctx.Err() == nil { // report the error, and go on with the next item
				s.printError(s.explain(ctx, err, s.target))
				return false, nil
			}
			return err == nil, err
		},
	})
}

// deleteOptions says how agents are deleted.
type deleteOptions struct {
	wait      waitFlag
	requestID string
	// keepUnsaved refuses to delete an agent with work that exists only in its workspace.
	keepUnsaved bool
}

// deleteAgents deletes the agents, several at a time, and prints the results in the order of the names. It returns the
// errors of agents with work that exists only in their workspaces, by index, and the first other error. It reports further
// errors itself.
func (s *session) deleteAgents(ctx context.Context, options deleteOptions, names []string) (unsavedErrs []error, firstErr error) {
	unsavedErrs = make([]error, len(names))
	firstErr = forEachAgent(ctx, s, "deleting", names, func(ctx context.Context, name string) (*fleetv1.DeleteAgentResponse, error) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		return s.deleteAgent(ctx, options, name)
	}, func(i int, resp *fleetv1.DeleteAgentResponse, err error) error {
		err = s.print(resp, err, func() { s.printResult(resp.GetMessage(), resp.GetDeletedAgent().GetName()) })
		if err != nil && options.keepUnsaved && reasonOf(err) == fleetv1.ErrorReason_UNSAVED_WORK.String() {
			unsavedErrs[i] = err
			return nil
		}
		return err
	})
	return unsavedErrs, firstErr
}

// deleteAgent deletes the agent. If options.keepUnsaved is set, the error is UNSAVED_WORK for an agent with work that exists only in
// its workspace.
func (s *session) deleteAgent(ctx context.Context, options deleteOptions, name string) (resp *fleetv1.DeleteAgentResponse, err error) {
	req := &fleetv1.DeleteAgentRequest{AgentName: name, RequestId: options.requestID, KeepUnsaved: &options.keepUnsaved}
	err = s.repeatUntilFinished(ctx, options.wait, func(ctx context.Context) (_ bool, err error) {
		resp, err = s.fleet.DeleteAgent(ctx, req)
		return resp.GetUnfinished(), err
	}, func() error {
		return &failure{
			code: ExitTimeout, reason: "TIMED_OUT", message: printable(name) + " is not deleted yet", hint: `"fleet agent list" shows it until it is`,
			details: map[string]any{"agent_name": name},
		}
	})
	return resp, err
}
