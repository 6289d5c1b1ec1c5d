package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"fleet/internal/store/record"
)

// In these files, each direction of a migration is marked as one statement for goose. Otherwise goose would search for
// the ends of statements, with a buffer of 4 MB for each line.
//
//go:embed migrations/*.sql
var migrations embed.FS

// otherStore is the alternative that errors name if this program cannot work with the database.
const otherStore = "another database"

// migrate upgrades the schema, which has the given version, and returns its new version. Each migration runs in a
// transaction of its own. migrate accepts a newer schema if its migrations say that this program can work with it, so that
// old and new replicas can run at the same time. If several replicas start at the same time, they migrate one after the other.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema record.Schema) (version int64, err error) {
	if schema.Have >= schema.Want {
		return schema.Have, schema.Check(otherStore)
	}
	return schema.Want, withProvider(pool, func(p *goose.Provider) error {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("upgrade the schema from version %d to %d: %w", schema.Have, schema.Want, err)
		}
		return nil
	})
}

// Schema connects to the database and returns the version of its schema and the version that this program needs. It changes nothing.
func Schema(ctx context.Context, url string) (record.Schema, error) {
	pool, err := newPool(ctx, url, sideConns, nil)
	if err != nil {
		return record.Schema{}, err
	}
	defer pool.Close()
	schema, err := readSchema(ctx, pool)
	return schema, contextError(ctx, translate(err))
}

const selectSchema = `SELECT coalesce(max(version_id), 0) FROM goose_db_version`

// Schema returns the current version of the schema and its version after Open, see fleet.Store.
func (s *Store) Schema(ctx context.Context) (current, atOpen int64, err error) {
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { return row.Scan(&current) }, selectSchema)
	return current, s.schemaAtOpen, err
}

func readSchema(ctx context.Context, pool *pgxpool.Pool) (schema record.Schema, err error) {
	err = withProvider(pool, func(p *goose.Provider) error {
		var known, applied []int64
		for _, s := range p.ListSources() {
			known = append(known, s.Version)
		}
		schema.Want = slices.Max(known)
		var exists bool
		if err := pool.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&exists); err != nil || !exists {
			return err
		}
		if err := pool.QueryRow(ctx, `SELECT array_agg(version_id) FROM goose_db_version`).Scan(&applied); err != nil || len(applied) == 0 {
			return err
		}
		schema.Have = slices.Max(applied)
		if err := record.CheckMigrations(applied, known, otherStore); err != nil || !schema.Newer() {
			return err
		}
		return pool.QueryRow(ctx, record.OldestQuery).Scan(&schema.Oldest)
	})
	return schema, err
}

// withProvider calls f with a goose provider that has the migrations of this program. The provider takes a lock in the database when
// it migrates.
func withProvider(pool *pgxpool.Pool, f func(*goose.Provider) error) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600)) // tries every second
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }() // this does not close the pool
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	return f(p)
}
