package postgres

import (
	"context"
	"time"

	"fleet/internal/store/record"
)

// Examination is the result of Examine.
type Examination struct {
	Version string // version of the Postgres server
	Schema  record.Schema
	Clock   time.Time     // the database's time
	Size    int64         // size of the database in bytes
	Latency time.Duration // duration of a query on an open connection
}

// Examine connects to the database and returns facts about it, and an error if Fleet cannot work with it. It changes nothing.
func Examine(ctx context.Context, url string) (x Examination, err error) {
	pool, err := newPool(ctx, url, sideConns, nil)
	if err != nil {
		return x, err
	}
	defer pool.Close()
	if _, x.Schema, err = inspectServer(ctx, pool); err != nil {
		return x, contextError(ctx, translate(err))
	}
	start := time.Now()
	err = pool.QueryRow(ctx, `SELECT clock_timestamp(), pg_database_size(current_database()), current_setting('server_version')`).Scan(&x.Clock, &x.Size, &x.Version)
	x.Latency = time.Since(start)
	return x, contextError(ctx, translate(err))
}
