package postgres

import (
	"context"
	"time"
)

// Examination is what a database says about itself.
type Examination struct {
	Version string
	Have    int64 // version of the schema, 0 if there is none
	Want    int64 // version that this program needs
	Clock   time.Time
	Size    int64         // in bytes
	Latency time.Duration // of a query on an open connection
}

// Examine asks the database about itself. It changes nothing.
func Examine(ctx context.Context, url string) (x Examination, err error) {
	pool, err := newPool(ctx, url, sideConns, nil)
	if err != nil {
		return x, err
	}
	defer pool.Close()
	if x.Have, x.Want, err = versions(ctx, pool); err != nil {
		return x, translate(err)
	}
	begun := time.Now()
	err = pool.QueryRow(ctx, `SELECT clock_timestamp(), pg_database_size(current_database()), current_setting('server_version')`).Scan(&x.Clock, &x.Size, &x.Version)
	x.Latency = time.Since(begun)
	return x, translate(err)
}
