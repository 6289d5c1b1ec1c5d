package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// conn is a connection with its prepared statements. One goroutine uses it at a time.
type conn struct {
	sql    *sql.Conn
	stmts  map[string]*sql.Stmt
	broken bool // its state is unknown: do not use it again
}

func newConn(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{sql: c, stmts: map[string]*sql.Stmt{}}, nil
}

// stmt returns the prepared statement. All SQL of the package is constant text, so there are few of them.
func (c *conn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.sql.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (c *conn) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// int64 returns the single number that the query selects.
func (c *conn) int64(ctx context.Context, query string, args ...any) (n int64, err error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return 0, err
	}
	return n, s.QueryRowContext(ctx, args...).Scan(&n)
}

// close closes the statements and returns the connection to database/sql. It closes a broken connection.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts { // before the connection, which they cannot outlive
		errs = append(errs, s.Close())
	}
	if c.broken {
		_ = c.sql.Raw(func(any) error { return driver.ErrBadConn })
		return nil
	}
	return errors.Join(append(errs, c.sql.Close())...)
}
