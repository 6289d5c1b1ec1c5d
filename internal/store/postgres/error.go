package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

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
	codeUnsupported   = "0A000" // from a standby that should begin a write transaction, or for a plan that a migration has made invalid
	codeDiskFull      = "53100"
	codeDivision      = "22012" // by zero
	codeNoDatabase    = "3D000"
	codeRefused       = "FL001"
)

// contextError returns err, or the error of ctx if ctx has ended, because err is then only a consequence.
func contextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// errorCode returns the error code of Postgres; "" if err is not an error of Postgres.
func errorCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// isUniqueViolation reports whether err means that a row would violate the unique index.
func isUniqueViolation(err error, index string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == codeUnique && e.ConstraintName == index
}

// isRefused reports whether err comes from a trigger that protects rows that must never change.
func isRefused(err error) bool { return errorCode(err) == codeRefused }

// isConflict reports whether err means that another transaction has prevented this one, so that a repetition may succeed.
func isConflict(err error) bool {
	switch errorCode(err) {
	case codeSerialization, codeDeadlock, codeLock:
		return true
	}
	return false
}

// isReadOnly reports whether err may mean that the connection leads to a standby.
func isReadOnly(err error) bool {
	return errorCode(err) == codeReadOnly || errorCode(err) == codeUnsupported
}

// isUnreachable reports whether err means that the database does not answer, or that it only allows reads, as a standby
// does.
func isUnreachable(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case connecting: // a server with a full disk refuses connections with errors of many kinds
			return !strings.HasPrefix(e.Code, "28") && e.Code != codeNoDatabase
		case isReadOnly(err), strings.HasPrefix(e.Code, "57P"), strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53") && e.Code != codeDiskFull:
			return true // shutting down, connection failure, too many connections
		}
		return e.Code == "25P03" // idle in the transaction for too long
	}
	_, network := errors.AsType[net.Error](err)
	return connecting || network || errors.Is(err, errNoAnswer) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err) || err != nil && strings.Contains(err.Error(), "conn closed")
}

// isRetryable reports whether a transaction that failed with err before its commit may succeed if it is repeated.
func isRetryable(err error) bool { return isConflict(err) || isUnreachable(err) }

// translate returns err as an error of package fleet if err means that the disk is full or that the database does not answer.
// Otherwise it returns err.
func translate(err error) error {
	noAnswer := errors.Is(err, errNoAnswer)
	if err == nil || fleet.ReasonOf(err) != fleet.ReasonInternal || !noAnswer && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	switch {
	case errorCode(err) == codeDiskFull:
		return errors.Join(fleet.ErrStoreFull, err)
	case isUnreachable(err):
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the server's database does not answer: try again in a moment").WithCause(err)
	}
	return err
}
