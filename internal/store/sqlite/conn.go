package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// conn is a connection with its prepared statements. Only one goroutine may use it at a time.
type conn struct {
	sql    *sql.Conn
	stmts  map[string]*sql.Stmt
	broken bool // the connection's state is unknown, so it must be closed
}

func newConn(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{sql: c, stmts: map[string]*sql.Stmt{}}, nil
}

// maxStmts is the largest number of statements that a connection keeps prepared. SQLite prepares other statements each time
// they run. Only the filters of tasks and events can produce more different statements than that.
const maxStmts = 300

// stmt returns the prepared statement for the query. It returns nil if the connection already keeps maxStmts
// statements.
func (c *conn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	if len(c.stmts) >= maxStmts {
		return nil, nil
	}
	s, err := c.sql.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// exec executes the query, prepared if possible.
func (c *conn) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := c.stmt(ctx, query)
	if s == nil && err == nil {
		return c.sql.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// query runs the query, prepared if possible.
func (c *conn) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := c.stmt(ctx, query)
	if s == nil && err == nil {
		return c.sql.QueryContext(ctx, query, args...)
	}
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// queryInt64 returns the single number that the query selects. It returns sql.ErrNoRows if the query selects no row.
func (c *conn) queryInt64(ctx context.Context, query string, args ...any) (n int64, err error) {
	s, err := c.stmt(ctx, query)
	if s == nil && err == nil {
		return n, c.sql.QueryRowContext(ctx, query, args...).Scan(&n)
	}
	if err != nil {
		return 0, err
	}
	return n, s.QueryRowContext(ctx, args...).Scan(&n)
}

// close closes the statements and returns the connection to database/sql. If the connection is broken, close closes it
// instead.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts { // statements must be closed before their connection
		errs = append(errs, s.Close())
	}
	if c.broken {
		_ = c.sql.Raw(func(any) error { return driver.ErrBadConn })
		return nil
	}
	return errors.Join(append(errs, c.sql.Close())...)
}
