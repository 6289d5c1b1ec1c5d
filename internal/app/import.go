package app

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"fleet/internal/face/cli"
	"fleet/internal/fleet"
	"fleet/internal/scratch"
	"fleet/internal/store/postgres"
	"fleet/internal/store/sqlite"
)

func (p *program) newImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "import",
		GroupID: cli.GroupServer,
		Short:   "Move a fleet from SQLite to Postgres, with its history",
		Long: `Copy everything in the SQLite database of the data directory into a Postgres database:
agents, tasks, results, events with their cursors, sessions, tokens. Stop the server first:
the command refuses a data directory that a server uses.
Afterwards start it on the same data directory, with the setting "store". The SQLite
database stays as it is. Fleet no longer uses it: two servers would run the same agents.
The command needs free space for a copy of it.

The Postgres database must have no agents and no history. Everything is copied in one
transaction: if the command fails, run it again.`,
		Example: `  FLEET_STORE=postgres://fleet:SECRET@db.example.com/fleet fleet import
  fleet import --data /var/lib/fleet --store postgres://fleet@db.example.com/fleet`,
		Args: cobra.NoArgs,
	}
	load := p.storeFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := load(cmd)
		if err != nil {
			return err
		}
		if cfg.Store == "" {
			return cli.Fail(cli.ExitUsage, "name the database with --store or FLEET_STORE", "the command needs a Postgres database to import into")
		}
		switch schema, err := sqlite.Schema(cmd.Context(), cfg.sqlitePath()); {
		case err != nil:
			return fmt.Errorf("%s is not the store of a fleet: %w", cfg.sqlitePath(), err)
		case schema.Have == 0:
			return fmt.Errorf("%s is not the store of a fleet: it is a SQLite database without Fleet's tables", cfg.sqlitePath())
		}
		return p.importStore(cmd, cfg)
	}
	return cmd
}

// importStore copies the SQLite database into Postgres, and marks the SQLite database as imported. It imports from a copy of the
// database, because opening a database of an older version upgrades it.
func (p *program) importStore(cmd *cobra.Command, cfg Config) (err error) {
	ctx, start := cmd.Context(), time.Now()
	lock, err := lockData(cfg.Data) // a running server would continue to use the SQLite database
	if err != nil {
		return err
	}
	defer closeWith(&err, lock.release)
	if cfg, err = cfg.withReplica(); err != nil {
		return err
	}
	places := map[string]string{}
	for _, kind := range []string{"local", "cagent"} { // their agents are on this machine
		places[kind] = fleet.PlaceOn(kind, cfg.Replica)
	}
	temp, err := scratch.Open(filepath.Join(cfg.Data, "tmp"))
	if err != nil {
		return err
	}
	defer closeWith(&err, temp.Close)
	copyPath := filepath.Join(temp.Path(), "fleet.db")
	if err := sqlite.Backup(ctx, cfg.sqlitePath(), copyPath); err != nil {
		return err
	}
	from, err := sqlite.Open(ctx, copyPath, sqlite.Config{})
	if err != nil {
		return err
	}
	defer closeWith(&err, from.Close)
	var counts map[string]int64
	if err := from.Export(ctx, func(rows func(table string) (*sql.Rows, error)) (err error) {
		counts, err = postgres.Import(ctx, cfg.Store, places, rows, func() error { return cfg.markImported(time.Now()) })
		return err
	}); err != nil && counts == nil { // with counts, only the end of the export failed, for example because of an interrupt: the fleet is imported
		return err
	}
	report := map[string]any{"from": cfg.sqlitePath(), "to": cfg.shownStore(), "copied": counts, "replica": cfg.Replica}
	return p.printResult(cmd, report, "Copied %d agents, %d tasks and %d events from %s to %s in %s.\nThis machine is %s: agents in the place local are in %s now.\nNow start the server with the same store: FLEET_STORE, --store, or store in fleet.yaml.\n",
		counts["agents"], counts["tasks"], counts["events"], cfg.sqlitePath(), cfg.shownStore(), time.Since(start).Round(time.Millisecond), cfg.Replica, places["local"])
}
