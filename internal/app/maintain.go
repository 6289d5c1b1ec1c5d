package app

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fleet/internal/face/cli"
	"fleet/internal/fleet"
	"fleet/internal/scratch"
	"fleet/internal/store/postgres"
	"fleet/internal/store/record"
	"fleet/internal/store/sqlite"
)

// storeFlags adds the flags --data, --store and --config. The returned function loads the configuration with them.
func (p *program) storeFlags(f *pflag.FlagSet) func(cmd *cobra.Command) (Config, error) {
	flags := DefaultConfig()
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	addFlags(all, &flags)
	f.AddFlag(all.Lookup("data"))
	f.AddFlag(all.Lookup("store"))
	file := f.String("config", "", "read settings from `FILE` (FLEET_CONFIG)")
	return func(cmd *cobra.Command) (Config, error) {
		cfg, err := Load(*file, p.environ, cmd.Flags())
		if err == nil {
			cfg, err = cfg.withPaths()
		}
		if err != nil {
			return cfg, cli.Fail(cli.ExitUsage, "see `"+cmd.CommandPath()+" --help`", "%v", err)
		}
		return cfg, nil
	}
}

func (p *program) newMigrate() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:     "migrate",
		GroupID: cli.GroupServer,
		Short:   "Upgrade the schema of the store, or show its version",
		Long: `Upgrade the schema of the store, or show its version.

"fleet serve" upgrades the schema when it starts. Use this command to upgrade it earlier,
for example with another role of Postgres, if the server's role may not create tables.
Back up first: an older Fleet may refuse a newer schema.`,
	})
	status := &cobra.Command{
		Use:   "status",
		Short: "Show the version of the schema",
		Long:  `Show the version of the store's schema, and the version that this program needs. It changes nothing.`,
		Example: `  fleet migrate status
  fleet migrate status --store postgres://fleet@db.example.com/fleet`,
		Args: cobra.NoArgs,
	}
	up := &cobra.Command{
		Use:   "up",
		Short: "Upgrade the schema to the version that this program needs",
		Long: `Upgrade the store's schema to the version that this program needs. It is safe to run this
several times at once: one process upgrades the schema, and the others wait.`,
		Example: `  fleet backup before.db && fleet migrate up
  FLEET_STORE=postgres://admin@db.example.com/fleet fleet migrate up`,
		Args: cobra.NoArgs,
	}
	load := p.storeFlags(cmd.PersistentFlags())
	status.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := load(cmd)
		if err != nil {
			return err
		}
		return p.showVersion(cmd, cfg)
	}
	up.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := load(cmd)
		if err != nil {
			return err
		}
		log, err := newLogger(cfg, nil)
		if err != nil {
			return err
		}
		s, err := cfg.openStore(cmd.Context(), nil, log)
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		return p.showVersion(cmd, cfg)
	}
	cmd.AddCommand(status, up)
	return cmd
}

// versionReport is the version of the schema of a store, as JSON.
type versionReport struct {
	Store  string `json:"store"`
	Exists bool   `json:"exists"`
	Schema int64  `json:"schema,omitzero"` // version of the store's schema
	Needed int64  `json:"needed,omitzero"` // version that this program needs
	Usable bool   `json:"usable"`          // this program can work with the store, perhaps after an upgrade
	Next   string `json:"next"`            // what to do, as a sentence
}

// showVersion prints the version of the schema and what to do.
func (p *program) showVersion(cmd *cobra.Command, cfg Config) error {
	var schema record.Schema
	var err error
	if cfg.Store != "" {
		schema, err = postgres.Schema(cmd.Context(), cfg.Store)
	} else {
		schema, err = sqlite.Schema(cmd.Context(), cfg.sqlitePath())
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	report := versionReport{Store: cfg.shownStore(), Exists: !missing, Schema: schema.Have, Needed: schema.Want, Usable: !schema.Newer() || schema.Usable(), Next: "It is up to date."}
	switch {
	case missing:
		report.Next = "`fleet serve` and `fleet migrate up` create it."
	case schema.Newer() && schema.Usable():
		report.Next = "A newer Fleet has upgraded it. This one can work with it."
	case schema.Newer():
		report.Next = "A newer Fleet has upgraded it. This one cannot work with it: start the newer one."
	case schema.Have < schema.Want:
		report.Next = "Run `fleet migrate up`, or `fleet serve`, which does it too."
	}
	if missing {
		return p.printResult(cmd, report, "%s does not exist yet. %s\n", report.Store, report.Next)
	}
	return p.printResult(cmd, report, "%s has schema version %d, and this Fleet needs %d. %s\n", report.Store, report.Schema, report.Needed, report.Next)
}

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

// importStore imports from a copy of the database, because opening a database of an older version upgrades it.
func (p *program) importStore(cmd *cobra.Command, cfg Config) (err error) {
	ctx, began := cmd.Context(), time.Now()
	lock, err := lockData(cfg.Data) // a server would go on with the SQLite database
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
	copied := filepath.Join(temp.Path(), "fleet.db")
	if err := sqlite.Backup(ctx, cfg.sqlitePath(), copied); err != nil {
		return err
	}
	from, err := sqlite.Open(ctx, copied, sqlite.Config{})
	if err != nil {
		return err
	}
	defer closeWith(&err, from.Close)
	var counts map[string]int64
	if err := from.Export(ctx, func(rows func(table string) (*sql.Rows, error)) (err error) {
		counts, err = postgres.Import(ctx, cfg.Store, places, rows)
		return err
	}); err != nil {
		return err
	}
	if err := cfg.markImported(time.Now()); err != nil {
		return err
	}
	report := map[string]any{"from": cfg.sqlitePath(), "to": cfg.shownStore(), "copied": counts, "replica": cfg.Replica}
	return p.printResult(cmd, report, "Copied %d agents, %d tasks and %d events from %s to %s in %s.\nThis machine is %s: agents in the place local are in %s now.\nNow start the server with the same store: FLEET_STORE, --store, or store in fleet.yaml.\n",
		counts["agents"], counts["tasks"], counts["events"], cfg.sqlitePath(), cfg.shownStore(), time.Since(began).Round(time.Millisecond), cfg.Replica, places["local"])
}

// printResult prints the text, or the value as JSON if the user wants JSON.
func (p *program) printResult(cmd *cobra.Command, value any, text string, args ...any) error {
	if wantsJSON(cmd) {
		return p.printJSON(value)
	}
	_, err := fmt.Fprintf(p.stdout, text, args...)
	return err
}
