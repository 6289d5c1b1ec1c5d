package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"fleet/internal/store/turn"
)

// pool lends connections, and opens each of them when it is first needed.
type pool struct {
	db    *sql.DB
	conns *turn.Queue[*conn] // a connection is nil until it is first needed
}

func newPool(db *sql.DB, n int) *pool {
	return &pool{db: db, conns: turn.NewQueue(make([]*conn, n)...)}
}

// acquire waits for a free connection, and opens it if it is used for the first time.
func (p *pool) acquire(ctx context.Context) (*conn, error) {
	c, err := p.conns.Acquire(ctx)
	if err != nil || c != nil {
		return c, err
	}
	if c, err = newConn(ctx, p.db); err != nil {
		p.conns.Release(ctx, nil)
		return nil, contextError(ctx, err)
	}
	return c, nil
}

// with calls f with a connection that no other goroutine uses meanwhile. It closes the connection if f has marked it as
// broken.
func (p *pool) with(ctx context.Context, f func(*conn) error) error {
	c, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { p.conns.Release(ctx, c) }()
	defer func() {
		if c.broken {
			_ = c.close() // the error that broke the connection is already known
			c = nil
		}
	}()
	return f(c)
}

// close closes the connections. It must be called when none is in use, and acquire must not be called afterwards.
func (p *pool) close() error {
	var errs []error
	for _, c := range p.conns.Close() {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}
