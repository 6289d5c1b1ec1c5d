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

// In the files, each direction of a migration is marked as one statement for goose. Otherwise goose would search for
// the ends of statements, with a buffer of 4 MB for each line.
//
//go:embed migrations/*.sql
var migrations embed.FS

// oldestProgram asks for the version of the schema that a program must know to work with the current one.
const oldestProgram = `SELECT oldest FROM compatibility`

// migrate upgrades the schema and returns its version. Each migration runs in a transaction of its own. migrate accepts
// a newer schema if its migrations say that this program can work with it, so that old and new replicas can run at the
// same time. If several replicas start at the same time, they migrate one after the other.
func migrate(ctx context.Context, pool *pgxpool.Pool) (version int64, err error) {
	have, want, err := versions(ctx, pool)
	switch {
	case err != nil:
		return 0, err
	case have > want:
		var oldest int64
		if err := pool.QueryRow(ctx, oldestProgram).Scan(&oldest); err != nil {
			return 0, err
		}
		if oldest > want {
			return 0, fmt.Errorf("its schema has version %d, which needs a Fleet that supports at least version %d, and this Fleet supports versions up to %d: use a newer Fleet, or another database", have, oldest, want)
		}
		return have, nil
	case have == want:
		return want, nil
	}
	return want, provide(pool, func(p *goose.Provider) error {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("upgrade the schema from version %d to %d: %w", have, want, err)
		}
		return nil
	})
}

// Versions returns the version of the database's schema, 0 if there is no schema, and the version that this program
// needs. If a newer program has upgraded the schema, a program can work with it if it knows the version oldest. Versions
// changes nothing.
func Versions(ctx context.Context, url string) (have, want, oldest int64, err error) {
	pool, err := newPool(ctx, url, sideConns, nil)
	if err != nil {
		return 0, 0, 0, err
	}
	defer pool.Close()
	if have, want, err = versions(ctx, pool); err == nil && have > want {
		err = pool.QueryRow(ctx, oldestProgram).Scan(&oldest)
	}
	return have, want, oldest, translate(err)
}

// versions returns the version of the database's schema, 0 if there is no schema, and the version that this program
// needs.
func versions(ctx context.Context, pool *pgxpool.Pool) (have, want int64, err error) {
	err = provide(pool, func(p *goose.Provider) error {
		var known, applied []int64
		for _, s := range p.ListSources() {
			known = append(known, s.Version)
		}
		want = slices.Max(known)
		var made bool
		if err := pool.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&made); err != nil || !made {
			return err
		}
		if err := pool.QueryRow(ctx, `SELECT array_agg(version_id) FROM goose_db_version`).Scan(&applied); err != nil || len(applied) == 0 {
			return err
		}
		have = slices.Max(applied)
		return record.CheckSchema(applied, known, "another database")
	})
	return have, want, err
}

// provide calls f with a goose provider that has the migrations of this program and takes a lock in the database.
func provide(pool *pgxpool.Pool, f func(*goose.Provider) error) error {
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
