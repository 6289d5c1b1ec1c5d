package app

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"fleet/internal/face/cli"
	"fleet/internal/store/postgres"
	"fleet/internal/store/record"
	"fleet/internal/store/sqlite"
)

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
	report := versionReport{Store: cfg.shownStore(), Exists: !missing, Schema: schema.Have, Needed: schema.Want, Usable: schema.Usable(), Next: "It is up to date."}
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
