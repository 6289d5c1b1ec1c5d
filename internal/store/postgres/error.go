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

// These are error codes of Postgres. codeRefused is the code of our own triggers.
const (
	codeUnique        = "23505"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLock          = "55P03"
	codeReadOnly      = "25006"
	codeUnsupported   = "0A000" // a standby begins no transaction that may write; also a plan that a migration has made useless
	codeDiskFull      = "53100"
	codeDivision      = "22012" // by zero
	codeNoDatabase    = "3D000"
	codeRefused       = "FL001"
)

// plain returns err, or the error of ctx if ctx has ended, because then err only follows from that.
func plain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// code returns the error code of Postgres; "" if err is not an error of Postgres.
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

// refused reports whether err comes from a trigger that protects rows that must never change.
func refused(err error) bool { return code(err) == codeRefused }

// conflict reports whether err means that another transaction has prevented this one, so that a repetition may succeed.
func conflict(err error) bool {
	switch code(err) {
	case codeSerialization, codeDeadlock, codeLock:
		return true
	}
	return false
}

// readOnly reports whether err may mean that the connection leads to a standby.
func readOnly(err error) bool { return code(err) == codeReadOnly || code(err) == codeUnsupported }

// unreachable reports whether err means that the database does not answer, or that it only allows reads, as a standby
// does.
func unreachable(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case connecting: // a server with a full disk refuses connections with errors of many kinds
			return !strings.HasPrefix(e.Code, "28") && e.Code != codeNoDatabase
		case readOnly(err), strings.HasPrefix(e.Code, "57P"), strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53") && e.Code != codeDiskFull:
			return true // shutting down, connection failure, too many connections
		}
		return e.Code == "25P03" // idle in the transaction for too long
	}
	_, network := errors.AsType[net.Error](err)
	return connecting || network || errors.Is(err, errNoAnswer) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err) || err != nil && strings.Contains(err.Error(), "conn closed")
}

// retryable reports whether a transaction that failed with err before its commit may succeed if it is repeated.
func retryable(err error) bool { return conflict(err) || unreachable(err) }

// translate returns err as an error of package fleet if it means that the disk is full or the database does not answer.
// Otherwise it returns err.
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

// fullFor is how long the store counts as full after the database has reported a full disk. Then the next write is
// tried.
const fullFor = time.Second

// fullShown is how long Full still reports a full disk if no write tries to add anything. Without such a write, nobody
// knows whether there is space again.
const fullShown = 5 * time.Minute

// fullness records whether the database's disk is full.
type fullness struct {
	mu          sync.Mutex
	since, last time.Time // when the disk was found full for the first and the last time; zero if it is not full
}

// saw records the result of a write: err if it has failed, or nil. grew means that the write has added something.
// Other writes may succeed on a full disk.
func (f *fullness) saw(err error, grew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := time.Now(); {
	case code(err) == codeDiskFull:
		if now.Sub(f.last) > fullShown {
			f.since = now.UTC()
		}
		f.last = now
	case err == nil && grew && now.Sub(f.last) > fullFor:
		f.since, f.last = time.Time{}, time.Time{}
	}
}

// within returns when the disk was first found full, if it was also found full within d.
func (f *fullness) within(d time.Duration) (since time.Time, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.last) > d {
		return time.Time{}, false
	}
	return f.since, true
}

// Full reports whether the store accepts only writes that end or remove things, see fleet.Store.
func (s *Store) Full() (since time.Time, full bool) { return s.full.within(fullShown) }

// mark returns the placeholder of the n-th argument.
func mark(n int) string { return "$" + strconv.Itoa(n) }
