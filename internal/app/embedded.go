package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"fleet/internal/admission"
	"fleet/internal/face/cli"
)

// embed opens a fleet in this process. The fleet requires no token, because a user who can read its data can do
// everything with it anyway.
func (p *program) embed(ctx context.Context, t cli.Target) (*App, error) {
	cfg, err := Load("", withData(p.environ, t.Data), nil)
	if err != nil {
		return nil, err
	}
	cfg.LogLevel = "warn"
	a, err := Open(ctx, cfg, Options{Log: p.stderr, Auth: func() admission.Authenticator { return admission.LocalAuth{} }})
	if _, ok := errors.AsType[*inUseError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open a fleet in %s: %w", cfg.Data, err)
	}
	p.logWith(a)
	return a, nil
}

// startEmbedded starts the work of a fleet without listeners, and shares as startSharing does. If this server must end, it closes the fleet, and
// later calls fail. The returned function closes the fleet. Its error also says why the fleet had to end.
func (a *App) startEmbedded() (closeApp func() error) {
	a.Start()
	endReason, end := make(chan error, 1), make(chan struct{})
	endSharing := a.startSharing(func(err error) { endReason <- err })
	closed := make(chan error, 1)
	go func() {
		var err error
		select {
		case err = <-endReason:
			a.log.Error("the fleet in this process closes", slog.Any("error", err))
		case <-end:
		}
		endSharing()
		closed <- errors.Join(err, a.Close())
	}()
	return func() error {
		close(end)
		return <-closed
	}
}
