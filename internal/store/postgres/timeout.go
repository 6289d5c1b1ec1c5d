package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// answerTimeout is how long the database may take to answer a statement. pingTimeout is how long it may take to answer a ping.
// A connection that was idle for at least pingIdle is pinged before it is used, because it can be dead without an error, for
// example when a proxy hangs. Then only these timeouts end the call.
const (
	answerTimeout = 10 * time.Second
	pingTimeout   = 2 * time.Second
	pingIdle      = time.Second
)

// abandonAfter is how long a statement may still run after its context has ended. Only then is its connection closed, which
// also cancels the statement. If the connection were closed at once, each caller that gives up would cost a connection, and
// opening another one takes the database longer than most statements. A request to cancel the statement would keep the
// connection, but it could arrive late and cancel the next statement, or make a COMMIT succeed before a standby has it.
const abandonAfter = time.Second

// abandonHandler returns a handler that closes the connection if a statement still runs abandonAfter after its context has
// ended.
func abandonHandler(c *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: abandonAfter}
}

// errNoAnswer means that the database did not answer within the timeout.
var errNoAnswer = errors.New("the database has not answered in time")

// withAnswerTimeout calls f with a context that ends after the timeout. If f fails after the timeout and ctx has not ended, the
// error of withAnswerTimeout contains errNoAnswer.
func withAnswerTimeout(ctx context.Context, timeout time.Duration, f func(ctx context.Context) error) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := f(timeoutCtx)
	if err != nil && timeoutCtx.Err() != nil && ctx.Err() == nil {
		return errors.Join(errNoAnswer, err)
	}
	return err
}
