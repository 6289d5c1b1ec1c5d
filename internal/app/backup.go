package app

import (
	"github.com/spf13/cobra"

	"fleet/internal/face/cli"
	"fleet/internal/store/sqlite"
)

func (p *program) newBackup() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "backup FILE",
		GroupID: cli.GroupServer,
		Short:   "Copy the database while servers use it",
		Long: `Copy the SQLite database in the data directory into a new file, which only you can read.
Servers can continue meanwhile: the copy has the state of one moment. To restore it, stop
the server, replace fleet.db in the data directory with the file, and delete fleet.db-wal
and fleet.db-shm.

The file has agents, tasks, events and results. The working directories of local agents
are beside the database in the data directory: copy them too if you need them.

For a fleet in Postgres, use the tools of Postgres, for example pg_dump.`,
		Example: `  fleet backup fleet-$(date +%F).db
  fleet backup --data /var/lib/fleet /backup/fleet.db`,
		Args: cobra.ExactArgs(1),
	}
	load := p.storeFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := load(cmd)
		if err != nil {
			return err
		}
		if cfg.Store != "" {
			return cli.Fail(cli.ExitUsage, "use pg_dump: `pg_dump --format=custom --file="+args[0]+" "+cfg.shownStore()+"`",
				"the fleet is kept in Postgres")
		}
		if args[0] == "-" {
			return cli.Fail(cli.ExitUsage, "give the name of a file", "a backup cannot be written to standard output")
		}
		to, err := fullPath(args[0])
		if err != nil {
			return err
		}
		if err := sqlite.Backup(cmd.Context(), cfg.sqlitePath(), to); err != nil {
			return err
		}
		return p.printResult(cmd, map[string]string{"from": cfg.sqlitePath(), "to": to}, "Copied %s to %s.\n", cfg.sqlitePath(), to)
	}
	return cmd
}
