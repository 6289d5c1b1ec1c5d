package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	"fleet/internal/fleet"
)

// foregroundTurns is how many foreground calls may pass a waiting background call.
const foregroundTurns = 4

// pool hands out connections and opens them when they are first needed. Calls are served in order, but background calls
// let foreground calls pass.
type pool struct {
	db *sql.DB

	mu          sync.Mutex
	free        []*conn // nil until opened
	front, back []chan *conn
	turns       int // foreground calls that passed the waiting background call
}

func newPool(db *sql.DB, n int) *pool { return &pool{db: db, free: make([]*conn, n)} }

// take waits for a free connection.
func (p *pool) take(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, background := fleet.LeaseFrom(ctx) // of a worker, for which nobody waits
	c, waiting := p.request(background)
	if waiting != nil {
		select {
		case c = <-waiting:
		case <-ctx.Done():
			p.withdraw(waiting)
			return nil, ctx.Err()
		}
	}
	if c != nil {
		return c, nil
	}
	c, err := newConn(ctx, p.db)
	if err != nil {
		p.give(nil)
		return nil, plain(ctx, err)
	}
	return c, nil
}

// request takes a connection or a place in a queue.
func (p *pool) request(background bool) (*conn, chan *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c, nil
	}
	waiting := make(chan *conn, 1)
	if background {
		p.back = append(p.back, waiting)
	} else {
		p.front = append(p.front, waiting)
	}
	return nil, waiting
}

// withdraw gives up a place in a queue, and the connection if it has arrived meanwhile.
func (p *pool) withdraw(waiting chan *conn) {
	p.mu.Lock()
	is := func(w chan *conn) bool { return w == waiting }
	p.front, p.back = slices.DeleteFunc(p.front, is), slices.DeleteFunc(p.back, is)
	p.mu.Unlock()
	select {
	case c := <-waiting:
		p.give(c)
	default:
	}
}

// give passes the connection to the next waiting call.
func (p *pool) give(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := &p.front
	switch {
	case len(p.front) == 0 && len(p.back) == 0:
		p.free = append(p.free, c)
		return
	case len(p.back) == 0:
	case len(p.front) == 0 || p.turns >= foregroundTurns:
		queue, p.turns = &p.back, 0
	default:
		p.turns++
	}
	next := (*queue)[0]
	*queue = slices.Delete(*queue, 0, 1)
	next <- c
}

// with calls f with a connection of its own.
func (p *pool) with(ctx context.Context, f func(*conn) error) error {
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer func() { p.give(c) }()
	defer func() {
		if c.broken {
			_ = c.close() // the error that broke it was reported already
			c = nil
		}
	}()
	return f(c)
}

// close closes every connection. No more may be taken.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.free {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	p.free = nil
	return errors.Join(errs...)
}
