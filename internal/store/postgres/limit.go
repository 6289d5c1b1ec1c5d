package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// answerLimit is how long the database may take to answer a statement. pingLimit is how long it may take to answer a
// ping, which is sent before a connection is used that was idle for pingIdle. A connection can be dead without an
// error, for example when a proxy hangs. Then only these limits end the call.
const (
	answerLimit = 10 * time.Second
	pingLimit   = 2 * time.Second
	pingIdle    = time.Second
)

// abandonAfter is how long a statement may still run after its context has ended. Only then is its connection closed, which
// also cancels the statement. If the connection were closed at once, each caller that gives up would cost a connection, and
// opening another one takes the database longer than most statements. A request to cancel the statement would keep the
// connection, but it could arrive late and cancel the next statement, or make a COMMIT succeed that a standby does not have.
const abandonAfter = time.Second

// abandonHandler returns what ends the statements of a connection when their contexts end.
func abandonHandler(c *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: abandonAfter}
}

// errNoAnswer means that the database did not answer within the limit.
var errNoAnswer = errors.New("the database has not answered in time")

// withAnswerLimit calls f with a context that ends after the limit. If f fails after the limit and ctx has not ended, the
// error of withAnswerLimit contains errNoAnswer.
func withAnswerLimit(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return errors.Join(errNoAnswer, err)
	}
	return err
}
