package shim

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"
)

// Errors of what is asked of a run that is under way.
var (
	ErrEnded      = errors.New("the run has ended")
	ErrNoMessages = errors.New("the run takes no messages")
	ErrNotRead    = errors.New("the run does not read its messages")
	ErrNoAnswer   = errors.New("the run's supervisor does not answer")
)

// answerTimeout is how long a shim may take to answer. Nothing it does by itself takes longer.
const answerTimeout = messageTimeout + 3*time.Second

// Interrupt asks the run to end: the group of the child gets TERM or, when kill is set, everything that descends from
// the child gets KILL. It does not wait for the end. ErrEnded when it has ended already.
func (r Run) Interrupt(ctx context.Context, kill bool, reason string) error {
	return r.order(ctx, order{Op: "interrupt", Kill: kill, Reason: reason})
}

// Message writes a line to the input of the run's child. A message of the same id is not written again.
func (r Run) Message(ctx context.Context, id, text string) error {
	return r.order(ctx, order{Op: "message", ID: id, Text: text})
}

// Kill ends a run whose shim does not answer: the shim itself is killed, and all that it ran.
func (r Run) Kill() error {
	c, err := r.Claim()
	if err != nil || c == nil || c.Void {
		return err
	}
	if err := c.Shim.Signal(killSignal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (r Run) order(ctx context.Context, o order) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := r.dial(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	var re reply
	if err := json.NewDecoder(conn).Decode(&re); err != nil {
		if os.IsTimeout(err) {
			return ErrNoAnswer
		}
		return ErrEnded // it ended between the question and the answer
	}
	switch re.Error {
	case "":
		return nil
	case errNone:
		return ErrNoMessages
	case errFull:
		return ErrNotRead
	}
	return ErrEnded
}

// Watch returns a channel that receives when there may be more to see of the run, and is closed when the shim has
// ended, in whatever way, or the context is done. ErrEnded when it has ended already.
func (r Run) Watch(ctx context.Context) (<-chan struct{}, error) {
	conn, err := r.dial(ctx, order{Op: "watch"})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	more := make(chan struct{}, 1)
	go func() {
		defer close(more)
		defer stop()
		defer func() { _ = conn.Close() }()
		for b := make([]byte, 512); ; {
			if _, err := conn.Read(b); err != nil {
				return
			}
			select {
			case more <- struct{}{}:
			default:
			}
		}
	}()
	return more, nil
}

// Wait returns how the run ended, when it has.
func (r Run) Wait(ctx context.Context) (*Exit, error) {
	for again := firstLook; ; again = min(2*again, lastLook) {
		if e, err := r.Settle(); e != nil || err != nil {
			return e, err
		}
		if more, err := r.Watch(ctx); err == nil {
			for range more {
			}
			again = firstLook
		}
		// A shim that is about to listen, or has just stopped to, cannot tell when to look again.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
}

// End ends the run and returns how it ended: it is asked to, and killed when it has not after the grace. Nothing of it
// is left then, the shim included.
func (r Run) End(ctx context.Context, grace time.Duration, reason string) (*Exit, error) {
	e, err := r.end(ctx, grace, reason)
	if err != nil {
		return nil, err
	}
	c, err := r.Claim()
	if err != nil || c == nil {
		return e, err
	}
	hopeless := time.After(killTime)
	for again := firstLook; c.Shim.Alive(); again = min(2*again, lastLook) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-hopeless: // it has nothing to do any more
			return e, r.Kill()
		case <-time.After(again):
		}
	}
	return e, nil
}

func (r Run) end(ctx context.Context, grace time.Duration, reason string) (*Exit, error) {
	for _, step := range []struct {
		act  func() error
		time time.Duration
	}{
		{func() error { return r.Interrupt(ctx, false, reason) }, grace},
		{func() error { return r.Interrupt(ctx, true, reason) }, killTime},
		{r.Kill, killTime},
	} {
		if e, err := r.Settle(); e != nil || err != nil {
			return e, err
		}
		// Whether it did any good, Wait tells; but a shim that does not answer will not do anything either.
		if err := step.act(); errors.Is(err, ErrNoAnswer) {
			continue
		}
		within, cancel := context.WithTimeout(ctx, step.time)
		e, err := r.Wait(within)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return e, err
		}
	}
	return nil, ErrNoAnswer
}

const (
	firstLook = 5 * time.Millisecond
	lastLook  = 500 * time.Millisecond
	killTime  = giveUp + 2*drainTime
)

// dial connects to the control socket and sends the order.
func (r Run) dial(ctx context.Context, o order) (net.Conn, error) {
	path, clean, err := short(r.Path("control"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrEnded
	}
	if err != nil {
		return nil, err
	}
	defer clean()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ErrEnded
	}
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		_ = conn.Close()
		return nil, ErrEnded
	}
	return conn, nil
}
