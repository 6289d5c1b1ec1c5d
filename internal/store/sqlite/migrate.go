package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"fleet/internal/store/record"
)

// In these files, each direction of a migration is marked as one statement for goose. Otherwise goose would search for
// the ends of statements, with a buffer of 4 MB for each line.
//
//go:embed migrations/*.sql
var migrations embed.FS

// otherStore is the alternative that errors name if this program cannot work with the database.
const otherStore = "another data directory"

// migrate upgrades the schema and returns its version. Each migration runs in a transaction of its own, and has the whole
// busy timeout to wait for other processes. migrate accepts a newer schema if its migrations say that this program can
// work with it, so that an upgrade of Fleet can be undone.
func (s *Store) migrate(ctx context.Context, db *sql.DB) (version int64, err error) {
	p, err := provider(db)
	if err != nil {
		return 0, err
	}
	for done := false; !done && err == nil; {
		err = s.retry(ctx, func() (err error) { version, done, err = migrateOnce(ctx, db, p); return err })
	}
	return version, err
}

// migrateOnce applies the next migration. If there is none, it returns done = true and the version of the schema.
func migrateOnce(ctx context.Context, db *sql.DB, p *goose.Provider) (version int64, done bool, err error) {
	schema, err := readSchema(ctx, db, p)
	if err != nil {
		return 0, false, err
	}
	if err := checkMigrations(ctx, db, p); err != nil {
		return 0, false, err
	}
	if schema.Have >= schema.Want {
		return schema.Have, true, schema.Check(otherStore)
	}
	if _, err := p.UpByOne(ctx); err != nil {
		// Another process may have applied the same migration first. Then continue from its version.
		if current, _, verr := p.GetVersions(ctx); verr == nil && current > schema.Have {
			return 0, false, nil
		}
		return 0, false, fmt.Errorf("upgrade the schema from version %d to %d: %w", schema.Have, schema.Want, err)
	}
	return 0, false, nil
}

// Schema returns the version of the schema in the file at path and the version that this program needs. It changes nothing.
func Schema(ctx context.Context, path string) (schema record.Schema, err error) {
	db, err := openExisting(path)
	if err != nil {
		return schema, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := provider(db)
	if err != nil {
		return schema, err
	}
	return readSchema(ctx, db, p)
}

const selectSchema = `SELECT coalesce(max(version_id), 0) FROM goose_db_version`

// Schema returns the current version of the schema and its version after Open, see fleet.Store.
func (s *Store) Schema(ctx context.Context) (current, atOpen int64, err error) {
	current, err = s.queryInt64(ctx, selectSchema)
	return current, s.schemaAtOpen, err
}

func readSchema(ctx context.Context, db *sql.DB, p *goose.Provider) (schema record.Schema, err error) {
	if schema.Have, schema.Want, err = p.GetVersions(ctx); err != nil || !schema.Newer() {
		return schema, err
	}
	return schema, db.QueryRowContext(ctx, record.OldestQuery).Scan(&schema.Oldest)
}

// checkMigrations returns an error if the database lacks a migration of this program but has a later one.
func checkMigrations(ctx context.Context, db *sql.DB, p *goose.Provider) error {
	rows, err := db.QueryContext(ctx, `SELECT version_id FROM goose_db_version`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var applied []int64
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			return err
		}
		applied = append(applied, v)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	var known []int64
	for _, s := range p.ListSources() {
		known = append(known, s.Version)
	}
	return record.CheckMigrations(applied, known, otherStore)
}

// provider returns a new goose provider with the migrations of this program.
func provider(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
}
