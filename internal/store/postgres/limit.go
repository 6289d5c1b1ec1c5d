package postgres

import (
	"context"
	"errors"
	"time"
)

// answerLimit is how long the database may take to answer a statement, and pingLimit the same for a connection that nobody has used
// for pingIdle. A connection can be dead without an error, for example when a proxy hangs, and then nothing else would
// end the call.
const (
	answerLimit = 10 * time.Second
	pingLimit   = 2 * time.Second
	pingIdle    = time.Second
)

// errNoAnswer means that a statement was given up because of answerLimit.
var errNoAnswer = errors.New("the database has not answered in time")

// answering calls f with a context that ends after the limit. If it does, and ctx goes on, the error is errNoAnswer.
func answering(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return errors.Join(errNoAnswer, err)
	}
	return err
}
