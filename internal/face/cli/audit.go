package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAudit() *cobra.Command {
	req := &fleetv1.ListAuditRequest{}
	var limit int32
	cmd := methodCommand(p, &cobra.Command{
		Use:   "audit",
		Short: "Show who called what, and how it ended",
		Long: `Show the audit log, newest call first. It contains failed logins and all calls that may
change something, including refused calls. Only admins can read the log. "fleet audit
export" writes the whole log as JSON Lines.`,
		Example: `  fleet audit --since 24h
  fleet audit --agent papi --outcome failed
  fleet audit --principal ci --method start_agent_task`,
		PreRun: func(cmd *cobra.Command, _ []string) {
			if !p.quiet || cmd.Flags().Changed("limit") {
				req.Limit = &limit
			}
		},
	}, fleetv1.FleetServiceClient.ListAudit, req, func(s *session, resp *fleetv1.ListAuditResponse) {
		printList(s, resp.GetEntries(), "No call matches.",
			column{"ID", valueIf(s.quiet, "id")},
			column{"AGE", (*fleetv1.AuditEntry).GetTime},
			column{"PRINCIPAL", "principal"},
			column{"METHOD", "method"},
			column{"TARGET", "target"},
			column{"OWNER", valueIf(s.output == wideFormat, "owner")},
			column{"OUTCOME", outcomeCell},
			column{"COUNT", valueIf(s.output == wideFormat || slices.ContainsFunc(resp.GetEntries(), func(e *fleetv1.AuditEntry) bool { return e.GetCount() > 1 }), "count")},
			column{"FACE", "face"},
			column{"REMOTE", "remote"},
			column{"ID", valueIf(s.output == wideFormat, "id")})
		if next := resp.GetNextCursor(); next != "" {
			s.hint("There is more: add --cursor %s, or export all of it with \"fleet audit export\".", next)
		}
	})
	p.addAuditFilter(cmd, req)
	cmd.Flags().Int32Var(&limit, "limit", 50, "show at most `N` calls, at most 1000")
	cmd.Flags().StringVar(&req.Cursor, "cursor", "", "continue from this `CURSOR`")
	cmd.AddCommand(p.newAuditExport())
	return cmd
}

// outcomeCell returns the cell with the outcome of the call, in its colour.
func outcomeCell(e *fleetv1.AuditEntry) cell {
	switch e.GetOutcome() {
	case "ok":
		return cell{"ok", green}
	case "unknown":
		return cell{"unknown", yellow}
	}
	return cell{e.GetOutcome(), red}
}

// exportPageSize is the number of entries that the export requests with one call.
const exportPageSize = 1000

func (p *program) newAuditExport() *cobra.Command {
	req := &fleetv1.ListAuditRequest{}
	cmd := callsTool(&cobra.Command{
		Use:   "export",
		Short: "Write the audit log as JSON Lines",
		Long: `Write the audit log to standard output, newest call first, each call as a line of JSON.
Without filters, the command writes the whole log. For the calls after an earlier export,
give the time of that export with --since.`,
		Example: `  fleet audit export > audit.jsonl
  fleet audit export --since 2026-11-01 --until 2026-12-01 | gzip > november.jsonl.gz`,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			limit := int32(exportPageSize)
			req.Limit = &limit
			for {
				resp, err := s.fleet.ListAudit(ctx, req)
				if err != nil {
					return err
				}
				for _, e := range resp.GetEntries() {
					line, err := jsonLine(e)
					if err != nil {
						return err
					}
					s.screen.print(line)
				}
				req.Cursor = resp.GetNextCursor()
				if err := s.screen.firstWriteErr(); err != nil || req.GetCursor() == "" {
					return err
				}
			}
		}),
	}, "list_audit")
	p.addAuditFilter(cmd, req)
	return cmd
}

func (p *program) addAuditFilter(cmd *cobra.Command, req *fleetv1.ListAuditRequest) {
	f := cmd.Flags()
	p.addTime(cmd, &req.Since, "since", "only calls in the last `DURATION`, such as 24h or 7d, or since a time such as 2026-11-01")
	p.addTime(cmd, &req.Until, "until", "only calls before `DURATION` ago, or before a time")
	f.StringVar(&req.Principal, "principal", "", "only calls of the principal with this `NAME`")
	f.StringVar(&req.Method, "method", "", "only calls of `METHOD`, such as start_agent_task")
	f.StringVar(&req.AgentName, "agent", "", "only calls about agents with this `NAME`")
	f.StringVar(&req.Outcome, "outcome", "", "only calls that ended with `OUTCOME`: ok, failed, unknown, or a reason such as PERMISSION_DENIED")
}
