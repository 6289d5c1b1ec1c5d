package app

import (
	"cmp"
	"context"
	"os/signal"

	"github.com/spf13/cobra"

	"fleet/internal/face/cli"
	"fleet/internal/telemetry"
)

func (p *program) newServe() *cobra.Command {
	flags := DefaultConfig() // holds the values of the flags; Load applies those that were given to its own configuration
	var file string
	cmd := &cobra.Command{
		Use:     "serve",
		GroupID: cli.GroupServer,
		Short:   "Run the server: gRPC, REST, MCP and the API page",
		Long: `Serve the fleet over gRPC, REST and MCP until interrupted. Agents and their runs
outlive the server: the next one on the same data finds them again.

A server locks its data directory, so that no other server or command with --embedded works
on the same agents. Several servers share a fleet in Postgres (--store), each with a data
directory of its own.

SIGHUP and "fleet reload" let the server read fleet.yaml again: projects, roles, prices and
limits. Other settings need a restart.

Settings come from flags, then from the environment (FLEET_HTTP for --http, and so on),
then from fleet.yaml in this directory, or else in the user's configuration directory.
"fleet init" writes a fleet.yaml that explains itself.`,
		Example: `  fleet serve
  fleet serve --http 127.0.0.1:9001 --grpc 127.0.0.1:9002 --data ./data
  fleet serve --auth tokens --http :8101 --grpc :8102 --tls-cert fleet.crt --tls-key fleet.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := catchHangups() // first, because SIGHUP ends a process that does not catch it
			defer signal.Stop(h.signals)
			read := func(file string) (Config, error) { return Load(file, p.environ, cmd.Flags()) }
			cfg, err := read(file)
			if err != nil {
				return cli.Fail(cli.ExitUsage, "see `fleet serve --help`", "%v", err)
			}
			a, err := Open(cmd.Context(), cfg, Options{
				Log: p.stderr, Spans: telemetry.NewExporter,
				Reload: func(current string) (Config, error) { return read(cmp.Or(current, file)) },
			})
			if err != nil {
				return err
			}
			p.logWith(a)
			telemetry.LogErrors(a.log)
			s, err := a.Listen(p.version)
			if err != nil {
				closeWith(&err, a.Close)
				return err
			}
			ctx, stop := context.WithCancelCause(cmd.Context())
			defer stop(nil)
			defer a.reloadOnHangup(ctx, h, stop)()
			return s.Serve(ctx)
		},
	}
	addFlags(cmd.Flags(), &flags)
	cmd.Flags().StringVar(&file, "config", "", "read settings from `FILE` (FLEET_CONFIG)")
	return cmd
}
