package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"fleet/internal/fleet"
)

// These are error codes of Postgres, and one of our triggers.
const (
	codeUnique        = "23505"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLock          = "55P03"
	codeReadOnly      = "25006"
	codeDiskFull      = "53100"
	codeDivision      = "22012" // by zero
	codeNoDatabase    = "3D000"
	codeRefused       = "FL001"
)

// plain replaces the error of a cancelled call with the error of ctx.
func plain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// taken reports whether err violates the unique index.
func taken(err error, index string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == codeUnique && e.ConstraintName == index
}

// refused reports whether err comes from a trigger that protects what never changes.
func refused(err error) bool { return code(err) == codeRefused }

// conflict reports whether another transaction was in the way.
func conflict(err error) bool {
	switch code(err) {
	case codeSerialization, codeDeadlock, codeLock:
		return true
	}
	return false
}

// unreachable reports whether the database does not answer, or serves only reads, as a standby does.
func unreachable(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case connecting: // a server with a full disk refuses connections with errors of many kinds
			return !strings.HasPrefix(e.Code, "28") && e.Code != codeNoDatabase
		case e.Code == codeReadOnly, strings.HasPrefix(e.Code, "57P"), strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53") && e.Code != codeDiskFull:
			return true // shutting down, connection failure, too many connections
		}
		return e.Code == "25P03" // idle in the transaction for too long
	}
	_, network := errors.AsType[net.Error](err)
	return connecting || network || errors.Is(err, errNoAnswer) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err) || err != nil && strings.Contains(err.Error(), "conn closed")
}

// retryable reports whether a transaction that failed with err before its commit may succeed when it is tried again.
func retryable(err error) bool { return conflict(err) || unreachable(err) }

// translate returns err as the core knows it.
func translate(err error) error {
	late := errors.Is(err, errNoAnswer)
	if err == nil || fleet.ReasonOf(err) != fleet.ReasonInternal || !late && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	switch {
	case code(err) == codeDiskFull:
		return errors.Join(fleet.ErrStoreFull, err)
	case unreachable(err):
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the server's database does not answer: try again in a moment").WithCause(err)
	}
	return err
}

// fullFor is how long the store counts as full after the database said so. Then one more write is tried.
const fullFor = time.Second

// fullness knows whether the database's disk is full.
type fullness struct {
	mu           sync.Mutex
	since, until time.Time
}

// saw notes whether a write has failed because of a full disk.
func (f *fullness) saw(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := time.Now(); {
	case code(err) == codeDiskFull:
		if f.since.IsZero() {
			f.since = now.UTC()
		}
		f.until = now.Add(fullFor)
	case err == nil && now.After(f.until):
		f.since = time.Time{}
	}
}

// now reports whether the disk is full, and since when.
func (f *fullness) now() (since time.Time, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() || time.Now().After(f.until) {
		return time.Time{}, false
	}
	return f.since, true
}

// Full reports whether the store accepts only what ends or removes things, see fleet.Store.
func (s *Store) Full() (since time.Time, full bool) { return s.full.now() }

func mark(n int) string { return "$" + strconv.Itoa(n) }
