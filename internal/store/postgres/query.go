package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/store/record"
)

// scanner is a short name for record.Scanner.
type scanner = record.Scanner

// unescapingRow is a row of a result. Its Scan unescapes texts.
type unescapingRow struct{ pgx.Rows }

// Scan implements record.Scanner.
func (r unescapingRow) Scan(dest ...any) error {
	if err := r.Rows.Scan(dest...); err != nil {
		return err
	}
	for _, d := range dest {
		switch d := d.(type) {
		case *string:
			*d = unescape(*d)
		case **string:
			if *d != nil {
				**d = unescape(**d)
			}
		}
	}
	return nil
}

// encode returns a copy of the arguments of a statement with their texts escaped.
func encode(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			out[i] = escape(v)
		case record.TextList:
			out[i] = escapeAll(v)
		case []string:
			out[i] = escapeAll(v)
		default:
			out[i] = arg
		}
	}
	return out
}

func escapeAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = escape(text)
	}
	return out
}

// query is a query with its arguments and the function that is called with every row of its result.
type query struct {
	eachRow func(scanner) error
	text    string
	args    []any
}

// forEachRow calls f with every row of the query's result until f fails.
func (t *baseTx) forEachRow(f func(scanner) error, text string, args ...any) error {
	return t.queryTogether(query{f, text, args})
}

// queryTogether sends the queries in one round trip, and reads their results in order.
func (t *baseTx) queryTogether(queries ...query) error {
	if t.err != nil {
		return t.err
	}
	err := withAnswerTimeout(t.ctx, answerTimeout, func(ctx context.Context) error { return t.send(ctx, queries) })
	return contextError(t.ctx, translate(err))
}

// send sends the queries together with the statements of queueBefore, and reads the results.
func (t *baseTx) send(ctx context.Context, queries []query) (err error) {
	b := &pgx.Batch{}
	readBefore := t.queueBefore(b)
	if b.Len() == 0 && len(queries) == 1 {
		rows, err := t.conn.Query(ctx, queries[0].text, encode(queries[0].args)...)
		if err != nil {
			return err
		}
		return readRows(rows, queries[0].eachRow)
	}
	for _, q := range queries {
		b.Queue(q.text, encode(q.args)...)
	}
	r := t.conn.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := readBefore(r); err != nil {
		return err
	}
	for _, q := range queries {
		rows, err := r.Query()
		if err != nil {
			return err
		}
		if err := readRows(rows, q.eachRow); err != nil {
			return err
		}
	}
	return nil
}

func readRows(rows pgx.Rows, f func(scanner) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(unescapingRow{rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// execNow executes a write now, unlike execLater.
func (t *tx) execNow(text string, args ...any) error {
	t.wrote = true
	return t.forEachRow(func(scanner) error { return nil }, text, args...)
}

// queryAll returns every row of the query's result, converted by scan.
func queryAll[T any](t *baseTx, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	var out []T
	if err := t.forEachRow(appendTo(&out, scan), text, args...); err != nil {
		return nil, t.fail(err)
	}
	return out, nil
}

// appendTo returns a function that appends a row, converted by scan, to the list.
func appendTo[T any](list *[]T, scan func(scanner) (T, error)) func(scanner) error {
	return func(row scanner) error {
		v, err := scan(row)
		*list = append(*list, v)
		return err
	}
}

// queryFirst returns the first row of the query's result, converted by scan. It returns the zero value if there are no rows.
func queryFirst[T any](t *baseTx, scan func(scanner) (T, error), text string, args ...any) (T, error) {
	values, err := queryAll(t, scan, text, args...)
	if err != nil || len(values) == 0 {
		var none T
		return none, err
	}
	return values[0], nil
}

// numberPlaceholders returns the query with its question marks replaced by $1, $2 and so on.
func numberPlaceholders(query string) string {
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			b.WriteString(placeholder(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// placeholder returns the placeholder of the n-th argument.
func placeholder(n int) string { return "$" + strconv.Itoa(n) }

// runStatement runs a single statement as a transaction of its own, and calls f with every row of its result. f may be nil.
// After a conflict with another transaction, runStatement runs the statement again.
func (s *Store) runStatement(ctx context.Context, pool *pgxpool.Pool, f func(scanner) error, text string, args ...any) error {
	if err := s.calls.Begin(); err != nil {
		return err
	}
	defer s.calls.End()
	if f == nil {
		f = func(scanner) error { return nil }
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.retry(ctx, func() (again bool, err error) {
		err = withAnswerTimeout(ctx, answerTimeout, func(ctx context.Context) error {
			rows, err := pool.Query(ctx, text, encode(args)...)
			if err != nil {
				return err
			}
			return readRows(rows, f)
		})
		return isConflict(err), translate(err)
	})
	s.disk.recordWrite(err, false)
	return err
}
