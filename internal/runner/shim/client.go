package shim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"fleet/internal/place/agentfile"
)

// Errors of calls for an active run.
var (
	ErrEnded           = errors.New("the run has ended")
	ErrNoMessages      = errors.New("the run accepts no messages")
	ErrNotRead         = errors.New("the run does not read its messages")
	ErrNotStored       = errors.New("the run's supervisor cannot store the answer: is the disk full?")
	ErrNoReply         = errors.New("the run's supervisor does not answer")
	ErrUnknownQuestion = errors.New("the run has no such question")
	ErrQuestionClosed  = errors.New("the run no longer waits for the answer")
)

// replyTimeout is how long a shim may take until its first reply. The second reply to a message may come much later.
const replyTimeout = messageTimeout + 3*time.Second

// pingTimeout is how long a shim may take to reply to Responds.
const pingTimeout = 2 * time.Second

// Interrupt asks the run to end. The shim sends SIGTERM to the child's process group. If kill is set, it also sends SIGKILL to
// the child and all its descendants. If kill is not set and the child has an active request to its model, the shim first waits
// for the model's answer: for linger at most or, if linger is 0, for most of the grace period. Interrupt does not wait for the
// end of the run. But if the child reports its turns and no request is active, Interrupt waits up to a second for the end of
// the turn, so that no request begins after the call. Interrupt returns ErrEnded if the run has ended.
func (r Run) Interrupt(ctx context.Context, kill bool, linger time.Duration, reason string) error {
	return r.sendRequest(ctx, controlRequest{Op: "interrupt", Kill: kill, Linger: linger, Reason: reason})
}

// Message delivers a message to the run's child. If the child confirms messages, Message waits for that. Otherwise it returns
// when the message is written to the child's pipe. If the child already has a message with the id, Message succeeds without
// effect, even if the run has ended. It returns ErrNoMessages, ErrNotRead, ErrNoReply or ErrEnded if it does not deliver the message.
func (r Run) Message(ctx context.Context, id, text string) error {
	err := r.sendRequest(ctx, controlRequest{Op: "message", ID: id, Text: text})
	if errors.Is(err, ErrEnded) && r.hasMessage(id) {
		return nil
	}
	return err
}

// Answer passes the answer to a question to the run's child. message is a text for the child, and by is the name of the person
// who answers. If remember is set and the answer is question.Allow, the rules of the question allow further calls of this run. Only
// the first answer counts. Later answers succeed without effect. Answer returns ErrUnknownQuestion if there is no such question, and
// ErrQuestionClosed if it was withdrawn or has expired.
func (r Run) Answer(ctx context.Context, id, answer, message, by string, remember bool) error {
	return r.sendRequest(ctx, controlRequest{Op: "answer", ID: id, Text: answer, Message: message, By: by, Remember: remember})
}

// maxMessagesFile limits how much of the file of messages is read, in bytes.
const maxMessagesFile = 1 << 20

// hasMessage reports whether the run has recorded that the child got the message.
func (r Run) hasMessage(id string) bool {
	b, err := agentfile.Read(r.Path(messagesFile), maxMessagesFile)
	return err == nil && slices.Contains(strings.Split(string(b), "\n"), id)
}

// Responds reports whether the shim responds. A suspended shim does not.
func (r Run) Responds(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	notifications, err := r.Watch(ctx)
	if err != nil {
		return false
	}
	_, ok := <-notifications // a watch gets a notification at once
	cancel()
	for range notifications { // until the watch has ended
	}
	return ok
}

// sendRequest sends the request and waits for its last reply, which for a message may come much later.
func (r Run) sendRequest(ctx context.Context, req controlRequest) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	conn, err := r.dial(timeoutCtx, req)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	from := bufio.NewReader(conn)
	re, err := readReply(timeoutCtx, conn, from)
	if err == nil && re.Accepted {
		re, err = readReply(ctx, conn, from)
	}
	if err != nil {
		return err
	}
	switch re.Error {
	case "":
		return nil
	case replyNotAccepted:
		return ErrNoMessages
	case replyFull:
		return ErrNotRead
	case replyNotStored:
		return ErrNotStored
	case replyUnknown:
		return ErrUnknownQuestion
	case replyClosed:
		return ErrQuestionClosed
	}
	return ErrEnded
}

// readReply returns the next reply. It returns ErrNoReply if the context is done first, and ErrEnded if the shim closes the
// connection without a reply.
func readReply(ctx context.Context, conn net.Conn, from *bufio.Reader) (re reply, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(pastDeadline) })
	line, err := from.ReadBytes('\n')
	switch {
	case !stop():
		return reply{}, ErrNoReply
	case err != nil || json.Unmarshal(line, &re) != nil:
		return reply{}, ErrEnded
	}
	return re, nil
}

// Attach connects a person's terminal with the program. The caller must close the result. Attach returns ErrEnded if the run has
// ended or does not listen yet, and ErrNoTerminal if the run has no terminal or somebody has already used the terminal.
func (r Run) Attach(ctx context.Context) (*TerminalConn, error) {
	timeoutCtx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	conn, err := r.dial(timeoutCtx, controlRequest{Op: "attach"})
	if err != nil {
		return nil, err
	}
	from := bufio.NewReader(conn)
	re, err := readReply(timeoutCtx, conn, from)
	if err == nil && re.Error != "" {
		err = ErrNoTerminal
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &TerminalConn{conn: conn, from: from, to: json.NewEncoder(conn)}, nil
}

// Watch returns a channel that receives a value at the start, and whenever there may be new output or questions of the run.
// The channel is closed when the shim ends or the context is done. Watch returns ErrEnded if the run has ended.
func (r Run) Watch(ctx context.Context) (<-chan struct{}, error) {
	conn, err := r.dial(ctx, controlRequest{Op: "watch"})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	notifications := make(chan struct{}, 1)
	go func() {
		defer close(notifications)
		defer stop()
		defer func() { _ = conn.Close() }()
		for b := make([]byte, 512); ; {
			if _, err := conn.Read(b); err != nil {
				return
			}
			notify(notifications)
		}
	}()
	return notifications, nil
}

// Wait waits until the run has ended, and returns how it ended.
func (r Run) Wait(ctx context.Context) (*Exit, error) {
	for pause := minPollInterval; ; pause = min(2*pause, maxPollInterval) {
		if e, err := r.Settle(); e != nil || err != nil {
			return e, err
		}
		if notifications, err := r.Watch(ctx); err == nil {
			for range notifications {
			}
			pause = minPollInterval
		}
		// A shim that is about to listen, or has just stopped, sends no notification.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// End interrupts the run, kills it after the grace period, and returns how it ended. If End returns no error, the shim has ended or
// got SIGKILL. If processes of the run could not be killed, Exit.Problem says so.
func (r Run) End(ctx context.Context, grace time.Duration, reason string) (*Exit, error) {
	e, err := r.end(ctx, grace, reason)
	if err != nil {
		return nil, err
	}
	c, err := r.Claim()
	if errors.Is(err, agentfile.ErrReplaced) { // the run was ended because its files were replaced
		return e, nil
	}
	if err != nil || c == nil {
		return e, err
	}
	giveUp := time.After(killedTimeout)
	for pause := minPollInterval; c.Shim.Alive(); pause = min(2*pause, maxPollInterval) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-giveUp: // nothing else can end the shim
			if err := c.Shim.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return e, err
			}
			return e, nil
		case <-time.After(pause):
		}
	}
	return e, nil
}

// end works like End, but does not wait for the end of the shim.
func (r Run) end(ctx context.Context, grace time.Duration, reason string) (*Exit, error) {
	for _, step := range []struct {
		act   func() error
		limit time.Duration
	}{
		{func() error { return r.Interrupt(ctx, false, 0, reason) }, grace},
		{func() error { return r.Interrupt(ctx, true, 0, reason) }, killedTimeout},
		{func() error { return r.Kill(Lost) }, killedTimeout},
	} {
		if e, err := r.Settle(); e != nil || err != nil {
			return e, err
		}
		// Wait shows whether the step worked, so other errors do not matter. A shim that does not answer will not act.
		if err := step.act(); errors.Is(err, ErrNoReply) {
			continue
		}
		timeoutCtx, cancel := context.WithTimeout(ctx, step.limit)
		e, err := r.Wait(timeoutCtx)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return e, err
		}
	}
	return nil, ErrNoReply
}

const (
	minPollInterval = 5 * time.Millisecond
	maxPollInterval = 500 * time.Millisecond
	killedTimeout   = killTimeLimit + 4*time.Second // how long a killed run may take to end, and to record its end
)

// pastDeadline is a deadline in the past.
var pastDeadline = time.Unix(1, 0)

// dial connects to the control socket and sends the request. It returns ErrEnded if no shim listens, and ErrNoReply if the shim
// does not take the request until the context is done.
func (r Run) dial(ctx context.Context, req controlRequest) (net.Conn, error) {
	path, clean, err := shortSocket(r.Path("control"))
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
	// For a suspended shim, the system accepts a connection, and data up to the size of its buffer.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(pastDeadline) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		_ = conn.Close()
		if os.IsTimeout(err) {
			return nil, ErrNoReply
		}
		return nil, ErrEnded
	}
	return conn, nil
}
