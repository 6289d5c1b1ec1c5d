package postgres

import (
	"context"
	"time"
)

// Examination is the result of Examine.
type Examination struct {
	Version string        // version of the Postgres server
	Have    int64         // version of the schema; 0 if there is no schema
	Want    int64         // version of the schema that this program needs
	Oldest  int64         // if Have is greater than Want: the version that a program must know to work with the schema
	Clock   time.Time     // the database's time
	Size    int64         // size of the database in bytes
	Latency time.Duration // duration of a query on an open connection
}

// Examine returns facts about the database. It changes nothing.
func Examine(ctx context.Context, url string) (x Examination, err error) {
	pool, err := newPool(ctx, url, sideConns, nil)
	if err != nil {
		return x, err
	}
	defer pool.Close()
	if x.Have, x.Want, err = versions(ctx, pool); err != nil {
		return x, translate(err)
	}
	if x.Have > x.Want {
		if err := pool.QueryRow(ctx, oldestProgram).Scan(&x.Oldest); err != nil {
			return x, translate(err)
		}
	}
	begun := time.Now()
	err = pool.QueryRow(ctx, `SELECT clock_timestamp(), pg_database_size(current_database()), current_setting('server_version')`).Scan(&x.Clock, &x.Size, &x.Version)
	x.Latency = time.Since(begun)
	return x, translate(err)
}
