package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"fleet/internal/store/record"
)

// In the files, each direction of a migration is marked as one statement for goose. Otherwise goose would search for
// the ends of statements, with a buffer of 4 MB for each line.
//
//go:embed migrations/*.sql
var migrations embed.FS

// oldestProgram asks for the version of the schema that a program must know to work with the current one.
const oldestProgram = `SELECT oldest FROM compatibility`

// migrate upgrades the schema and returns its version. Each migration runs in a transaction of its own. migrate accepts
// a newer schema if its migrations say that this program can work with it, so that an upgrade of Fleet can be undone.
func migrate(ctx context.Context, db *sql.DB) (version int64, err error) {
	p, err := provider(db)
	if err != nil {
		return 0, err
	}
	before, target, err := p.GetVersions(ctx)
	if err != nil {
		return 0, err
	}
	if err := checkSchema(ctx, db, p); err != nil {
		return 0, err
	}
	if before > target {
		var oldest int64
		if err := db.QueryRowContext(ctx, oldestProgram).Scan(&oldest); err != nil {
			return 0, err
		}
		if oldest > target {
			return 0, fmt.Errorf("its schema has version %d, which needs a Fleet that supports at least version %d, and this Fleet supports versions up to %d: use a newer Fleet, or another data directory",
				before, oldest, target)
		}
		return before, nil
	}
	if _, err := p.Up(ctx); err != nil {
		// Another process may have applied the same migration first. Then continue from its version.
		if now, _, verr := p.GetVersions(ctx); verr == nil && now > before {
			return migrate(ctx, db)
		}
		return 0, fmt.Errorf("upgrade the schema from version %d to %d: %w", before, target, err)
	}
	return target, nil
}

// checkSchema returns an error if the database lacks a migration of this program but has a later one.
func checkSchema(ctx context.Context, db *sql.DB, p *goose.Provider) error {
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
	return record.CheckSchema(applied, known, "another data directory")
}

// provider returns goose with the migrations of this program.
func provider(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
}
