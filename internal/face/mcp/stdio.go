package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"fleet/internal/face/mcp/tool"
)

// Stdio serves one toolset to one client, with one message per line from in to out. Calls go over conn, whose
// credentials identify the caller. Stdio returns nil after in has ended and every request is answered, or when ctx is
// done. It returns an error if it cannot read or write, or if the toolset does not exist. If a read of in is pending
// when ctx ends, the read continues until in delivers data or ends.
//
// Stdio replaces mcp-go's stdio server, which drops pending calls when its input ends, runs only five calls at a time,
// and shares one notification channel among all sessions of a process.
func Stdio(ctx context.Context, conn grpc.ClientConnInterface, c Config, in io.Reader, out io.Writer) error {
	c = c.withDefaults()
	sets := c.filterTools(toolsets(conn))
	i := slices.IndexFunc(sets, func(s tool.Set) bool { return s.Name == c.Toolset })
	if i < 0 {
		return fmt.Errorf("mcp: there is no toolset %q; the toolsets are %s", c.Toolset, joinNames(sets))
	}
	ctx, stop := context.WithCancel(tool.WithMaxSilence(tool.WithMaxResult(withCallMetadata(ctx, ""), c.MaxResult), c.MaxSilence))
	defer stop()
	t := newTasks(conn)
	s := &stdio{
		server: newServer(conn, sets[i], t, c), tasks: t, client: newClientSession(), pings: newPinger(), log: c.Log, out: out, drainTimeout: c.DrainTimeout, cancel: stop,
		failed: make(chan error, 1), calls: map[string]context.CancelCauseFunc{},
	}
	ctx = s.server.WithContext(ctx, s.client)
	var end context.CancelFunc
	s.ended, end = context.WithCancel(ctx)
	defer end()
	lines := make(chan line)
	go readLines(ctx, in, c.MaxBody, lines)
	s.serve(ctx, lines)
	end()
	s.pings.close()
	s.running.Wait()
	select {
	case err := <-s.failed:
		return err
	default:
		return nil
	}
}

// stdio serves one client.
type stdio struct {
	server *server.MCPServer
	tasks  tasks
	ended  context.Context //nolint:containedctx // ends when the input has ended
	client *clientSession
	pings  *pinger
	log    *slog.Logger
	cancel context.CancelFunc
	failed chan error // why serving stopped

	outMu        sync.Mutex
	out          io.Writer
	drainTimeout time.Duration // Config.DrainTimeout

	running sync.WaitGroup
	mu      sync.Mutex
	calls   map[string]context.CancelCauseFunc // pending requests by their id
}

// errCancelled ends a call that the client has cancelled. Such a call is not answered.
var errCancelled = errors.New("the client has cancelled the request")

// fail stops serving with the first error.
func (s *stdio) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
	s.cancel()
}

// serve handles lines until the input ends or cannot be read, or ctx is done.
func (s *stdio) serve(ctx context.Context, lines <-chan line) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-lines:
			switch {
			case errors.Is(l.err, io.EOF):
				return
			case errors.Is(l.err, errLineTooLong):
				s.sendResponse((&rpcError{Code: mcp.INVALID_REQUEST, Message: "the message is too large; send less"}).response(nil))
			case l.err != nil:
				s.fail(fmt.Errorf("mcp: read: %w", l.err))
				return
			default:
				s.handle(ctx, l.message)
			}
		}
	}
}

// handle starts processing one message. Requests run concurrently: while one waits for a task, another one can
// stop the task.
func (s *stdio) handle(ctx context.Context, message []byte) {
	m, problem := readEnvelope(message)
	switch {
	case problem != nil:
		s.sendResponse(problem.response(m.ID))
	case m.Method == methodCancelled:
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel, ok := s.calls[string(m.Params.RequestID)]; ok {
			cancel(errCancelled)
		}
	case m.isResponse():
		s.pings.pong(string(m.ID))
	case len(m.ID) == 0 || string(m.ID) == "null":
		s.server.HandleMessage(ctx, message)
	default:
		s.startRequest(ctx, m, message)
	}
}

// startRequest starts a request. The request can be cancelled as soon as startRequest returns.
func (s *stdio) startRequest(ctx context.Context, m envelope, message []byte) {
	ctx, cancel := context.WithCancelCause(ctx)
	id := string(m.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.calls[id]; ok {
		cancel(nil)
		s.sendResponse((&rpcError{Code: mcp.INVALID_REQUEST, Message: "a request with this id is already running; give each request its own id"}).response(m.ID))
		return
	}
	s.calls[id] = cancel
	s.running.Go(func() {
		defer cancel(nil)
		ctx, unreported := withUnreportedTask(ctx)
		response := s.call(ctx, m, message)
		s.mu.Lock()
		delete(s.calls, id)
		s.mu.Unlock()
		if response != nil && !errors.Is(context.Cause(ctx), errCancelled) {
			s.sendResponse(response)
		}
		if ctx.Err() != nil {
			s.tasks.abandon(ctx, unreported)
		}
	})
}

// call runs a request and returns the response, or nil if mcp-go gives none.
func (s *stdio) call(ctx context.Context, m envelope, message []byte) (response []byte) {
	defer func() {
		if r := recover(); r != nil {
			s.log.ErrorContext(ctx, "call panicked", slog.String("method", m.Method), slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
			response = (&rpcError{Code: mcp.INTERNAL_ERROR, Message: "an internal error occurred in Fleet; its log has the cause"}).response(m.ID)
		}
	}()
	ctx = metadata.AppendToOutgoingContext(ctx, m.traceMetadata(nil)...)
	if m.isTaskMethod() {
		response, _ := s.tasks.respond(ctx, m)
		return response
	}
	if m.subscribes() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ended, cancel)() // a subscription does not end by itself
		return s.tasks.listen(ctx, m, func(n mcp.JSONRPCNotification) error { return s.notify(n, nil) })
	}
	progress := false
	message, x := replaceInexact(message, m)
	ctx, refused := withRefusal(ctx)
	ctx, result := tool.WithDeferredResult(ctx)
	r := s.server.HandleMessage(tool.WithNotify(ctx, func(n mcp.JSONRPCNotification) error {
		progress = true
		return s.notify(n, x)
	}), message)
	if r == nil {
		return nil
	}
	switch {
	case !progress:
	case m.isModern():
		s.drain(ctx)
	case s.client.Initialized():
		s.pings.ping(ctx, s.write)
	}
	if refused.err != nil {
		return refused.err.response(m.ID)
	}
	b, err := json.Marshal(r)
	if err != nil {
		s.log.ErrorContext(ctx, "response cannot be encoded", slog.String("method", m.Method), slog.Any("error", err))
		return (&rpcError{Code: mcp.INTERNAL_ERROR, Message: "the answer cannot be written as JSON; the server's log has the cause"}).response(m.ID)
	}
	return result.Append(nil, x.restore(b))
}

// notify sends a notification, with the numbers of x restored.
func (s *stdio) notify(n mcp.JSONRPCNotification, x exactNumbersByText) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("mcp: marshal notification: %w", err)
	}
	return s.write(x.restore(b))
}

// sendResponse sends a response, after mcp-go's own notifications that precede it.
func (s *stdio) sendResponse(response []byte) {
	for {
		select {
		case n := <-s.client.notifications:
			if s.notify(n, nil) != nil {
				return
			}
			continue
		default:
		}
		break
	}
	_ = s.write(response) // a failed write has stopped serving
}

// drain waits until the client has read what was written. Nothing else is written meanwhile, so the wait is bounded.
func (s *stdio) drain(ctx context.Context) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	drain(ctx, s.out, s.drainTimeout)
}

// write sends one line. If that fails, the client has disconnected and serving stops.
func (s *stdio) write(message []byte) error {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	if _, err := s.out.Write(append(message, '\n')); err != nil {
		err = fmt.Errorf("mcp: write: %w", err)
		s.fail(err)
		return err
	}
	return nil
}

// clientSession is the mcp-go session of Stdio's single client.
type clientSession struct {
	initialized   atomic.Bool
	notifications chan mcp.JSONRPCNotification
}

// newClientSession returns a session that can buffer the notifications that mcp-go sends during one request.
func newClientSession() *clientSession {
	return &clientSession{notifications: make(chan mcp.JSONRPCNotification, 100)}
}

func (c *clientSession) Initialize() { c.initialized.Store(true) }

func (c *clientSession) Initialized() bool { return c.initialized.Load() }

func (c *clientSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notifications }
func (c *clientSession) SessionID() string                                   { return "stdio" }
