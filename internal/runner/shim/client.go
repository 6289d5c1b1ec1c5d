package shim

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"fleet/internal/place/agentfile"
)

// Errors of what is asked of a run that is under way.
var (
	ErrEnded      = errors.New("the run has ended")
	ErrNoMessages = errors.New("the run takes no messages")
	ErrNotRead    = errors.New("the run does not read its messages")
	ErrNoAnswer   = errors.New("the run's supervisor does not answer")
	ErrNotAsked   = errors.New("the run has not asked that")
	ErrClosed     = errors.New("the run does not wait for the answer any more")
)

// answerTimeout is how long a shim may take to answer. Nothing it does by itself takes longer.
const answerTimeout = messageTimeout + 3*time.Second

// pingTimeout is how long a shim may take to say that it is there.
const pingTimeout = 2 * time.Second

// Interrupt asks the run to end: the group of the child gets TERM or, when kill is set, everything that descends from
// the child gets KILL. A child that is asking its model gets TERM when the answer is there, but no later than after
// linger, or after most of its grace if linger is 0. Interrupt does not wait for the end. ErrEnded when it has ended already.
func (r Run) Interrupt(ctx context.Context, kill bool, linger time.Duration, reason string) error {
	return r.order(ctx, order{Op: "interrupt", Kill: kill, Linger: linger, Reason: reason})
}

// Message writes a line to the input of the run's child. A message of the same id is not written again, and is no error
// either when the run has ended since.
func (r Run) Message(ctx context.Context, id, text string) error {
	err := r.order(ctx, order{Op: "message", ID: id, Text: text})
	if errors.Is(err, ErrEnded) && r.had(id) {
		return nil
	}
	return err
}

// Answer gives the run's child the answer to the question of the id. The first answer counts: another one is no error.
func (r Run) Answer(ctx context.Context, id, answer, message, by string) error {
	return r.order(ctx, order{Op: "answer", ID: id, Text: answer, Message: message, By: by})
}

// maxMessages is how much of the file of messages is read, in bytes.
const maxMessages = 1 << 20

// had reports whether the run was given the message.
func (r Run) had(id string) bool {
	b, err := agentfile.Read(r.Path(messagesFile), maxMessages)
	return err == nil && slices.Contains(strings.Split(string(b), "\n"), id)
}

// Answers reports whether the shim answers. One that is suspended does not.
func (r Run) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	more, err := r.Watch(ctx)
	if err != nil {
		return false
	}
	_, ok := <-more // a watch is told at once that there may be something
	cancel()
	for range more { // until the watch has ended
	}
	return ok
}

func (r Run) order(ctx context.Context, o order) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := r.dial(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(past) })()
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
	case errUnknown:
		return ErrNotAsked
	case errClosed:
		return ErrClosed
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
	if errors.Is(err, agentfile.ErrReplaced) { // the run was ended for that
		return e, nil
	}
	if err != nil || c == nil {
		return e, err
	}
	hopeless := time.After(killTime)
	for again := firstLook; c.Shim.Alive(); again = min(2*again, lastLook) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-hopeless: // it has nothing to do any more
			if err := c.Shim.Signal(killSignal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return e, err
			}
			return e, nil
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
		{func() error { return r.Interrupt(ctx, false, 0, reason) }, grace},
		{func() error { return r.Interrupt(ctx, true, 0, reason) }, killTime},
		{func() error { return r.Kill(Lost) }, killTime},
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

// past is a deadline that is over.
var past = time.Unix(1, 0)

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
	// A suspended shim takes a connection, and as much as fits into the system's buffer.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(past) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		_ = conn.Close()
		if os.IsTimeout(err) {
			return nil, ErrNoAnswer
		}
		return nil, ErrEnded
	}
	return conn, nil
}
