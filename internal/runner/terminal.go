package runner

import (
	"context"
	"errors"
	"os"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/shim"
)

// Attach connects a person's terminal with the run, as fleet.Attacher describes. Dispatch may start the run before or after
// Attach is called.
func (a Agent) Attach(ctx context.Context, r fleet.Run, input <-chan fleet.TerminalInput, output func([]byte) error) error {
	terminal, err := a.connectTerminal(ctx, a.home.run(r.TaskID))
	if errors.Is(err, shim.ErrEnded) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = terminal.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer func() { _ = terminal.Close() }() // ends the read below
		for {
			select {
			case i, ok := <-input:
				if !ok || terminal.Send(i.Data, i.Columns, i.Rows) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	for buffer := make([]byte, 32<<10); ; {
		n, err := terminal.Read(buffer)
		if n > 0 {
			if err := output(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return ctx.Err()
		}
	}
}

// connectTerminal waits until the run has started, and connects with it. It returns shim.ErrEnded if the run has ended.
func (a Agent) connectTerminal(ctx context.Context, run shim.Run) (*shim.TerminalConn, error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		terminal, err := run.Attach(ctx)
		switch {
		case err == nil:
			return terminal, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, shim.ErrNoTerminal):
			return nil, fleet.Errorf(fleet.ReasonAgentBusy, "the terminal of agent %q is used already", a.name)
		case !errors.Is(err, shim.ErrEnded) && !errors.Is(err, shim.ErrNoReply) && !os.IsNotExist(err):
			return nil, HostError("cannot connect with the program", err)
		}
		if e, err := run.Exit(); err == nil && e != nil {
			return nil, shim.ErrEnded
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
