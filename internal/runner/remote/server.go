package remote

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/gen/fleet/runner/v1/runnerv1connect"
	"fleet/internal/fleet"
)

// Runners has the runners of agents. A fleet.Place is one.
type Runners interface {
	Connect(a fleet.Agent) fleet.Runner
}

// ServerConfig configures a server. Key is needed.
type ServerConfig struct {
	Key     ed25519.PublicKey // of Fleet
	Version string            // of the program
	Logger  *slog.Logger      // nil: none
	// Heartbeat is how often a stream says that it works; 0: 15 s.
	Heartbeat time.Duration
	Now       func() time.Time // nil: time.Now
}

const defaultHeartbeat = 15 * time.Second

// Server serves runners to Fleet.
type Server struct {
	config  ServerConfig
	runners Runners
	verify  *verifier

	mu    sync.Mutex
	turns map[string]chan struct{} // by agent uid: of its dispatches
}

var _ runnerv1connect.RunnerServiceHandler = (*Server)(nil)

// NewServer makes a server.
func NewServer(runners Runners, c ServerConfig) (*Server, error) {
	if len(c.Key) != ed25519.PublicKeySize {
		return nil, errors.New("the runner needs the public key of Fleet")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = defaultHeartbeat
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Server{
		config: c, runners: runners, turns: map[string]chan struct{}{},
		verify: &verifier{key: c.Key, instance: rand.Text(), now: c.Now, seen: map[string]time.Time{}},
	}, nil
}

// Header is in every answer of a runner, which tells it from the answers of proxies.
const Header = "Fleet-Runner"

// Handler serves the protocol, and /healthz for who watches the process.
func (s *Server) Handler() http.Handler {
	_, rpc := runnerv1connect.NewRunnerServiceHandler(s, connect.WithReadMaxBytes(maxRequest), connect.WithRecover(
		func(ctx context.Context, spec connect.Spec, _ http.Header, p any) error {
			s.config.Logger.ErrorContext(ctx, "call panicked", "procedure", spec.Procedure, "panic", p)
			return fault(errors.New("panic"))
		}))
	errs := connect.NewErrorWriter()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("POST /"+runnerv1connect.RunnerServiceName+"/", func(w http.ResponseWriter, r *http.Request) {
		if procedureOf(r.URL.Path) != runnerv1connect.RunnerServiceHandshakeProcedure {
			if err := s.verify.check(w, r); err != nil {
				s.config.Logger.WarnContext(r.Context(), "request refused", "procedure", procedureOf(r.URL.Path), "err", err)
				_ = errs.Write(w, r, fault(err))
				return
			}
		}
		rpc.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(Header, cmp.Or(s.config.Version, "unknown"))
		mux.ServeHTTP(w, r)
	})
}

// Handshake implements the service.
func (s *Server) Handshake(context.Context, *connect.Request[runnerv1.HandshakeRequest]) (*connect.Response[runnerv1.HandshakeResponse], error) {
	return connect.NewResponse(&runnerv1.HandshakeResponse{
		Protocol: Protocol, OldestProtocol: OldestProtocol, Version: s.config.Version, Instance: s.verify.instance,
		Now: timestamppb.New(s.config.Now()),
	}), nil
}

// Dispatch implements the service. Those for one agent come one at a time: a caller whose connection broke may call again
// before the first call has noticed.
func (s *Server) Dispatch(ctx context.Context, req *connect.Request[runnerv1.DispatchRequest]) (*connect.Response[runnerv1.DispatchResponse], error) {
	r, run, err := s.runner(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	if run.Timeout <= 0 {
		return nil, fault(fleet.Invalid(fleet.ReasonInvalidArgument, "run.timeout", "run.timeout must be positive"))
	}
	turn := s.turn(req.Msg.GetAgent().GetUid())
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fault(ctx.Err())
	}
	if err := r.Dispatch(ctx, run); err != nil {
		return nil, s.failed(ctx, err)
	}
	return connect.NewResponse(&runnerv1.DispatchResponse{}), nil
}

// Follow implements the service.
func (s *Server) Follow(ctx context.Context, req *connect.Request[runnerv1.FollowRequest], stream *connect.ServerStream[runnerv1.FollowResponse]) error {
	r, run, err := s.runner(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return err
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w := req.Msg.GetMaxWait().AsDuration(); w > 0 {
		ctx, cancel = context.WithTimeout(ctx, w)
		defer cancel()
	}
	var sending sync.Mutex
	send := func(m *runnerv1.FollowResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(m)
	}
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		tick := time.NewTicker(s.config.Heartbeat)
		defer tick.Stop()
		for {
			if send(&runnerv1.FollowResponse{Event: &runnerv1.FollowResponse_Heartbeat{Heartbeat: &runnerv1.Heartbeat{}}}) != nil {
				cancel()
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	o, err := r.Follow(ctx, run, req.Msg.GetCursor(), func(out fleet.Output) error {
		if out.Question != nil { // clients do not know of them
			return nil
		}
		return send(&runnerv1.FollowResponse{Event: &runnerv1.FollowResponse_Output{Output: outputTo(out)}})
	})
	waited := ctx.Err() != nil && caller.Err() == nil
	cancel()
	<-beats // nothing may be sent when this method has returned
	switch {
	case err == nil:
		return send(&runnerv1.FollowResponse{Event: &runnerv1.FollowResponse_Outcome{Outcome: outcomeTo(o)}})
	case waited && errors.Is(err, context.DeadlineExceeded):
		return nil // max_wait is over
	}
	return s.failed(caller, err)
}

// Interrupt implements the service.
func (s *Server) Interrupt(ctx context.Context, req *connect.Request[runnerv1.InterruptRequest]) (*connect.Response[runnerv1.InterruptResponse], error) {
	r, run, err := s.runner(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	if err := r.Interrupt(ctx, run, req.Msg.GetKill()); err != nil {
		return nil, s.failed(ctx, err)
	}
	return connect.NewResponse(&runnerv1.InterruptResponse{}), nil
}

// Send implements the service.
func (s *Server) Send(ctx context.Context, req *connect.Request[runnerv1.SendRequest]) (*connect.Response[runnerv1.SendResponse], error) {
	r, run, err := s.runner(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	if req.Msg.GetMessageId() == "" {
		return nil, fault(fleet.Invalid(fleet.ReasonInvalidArgument, "message_id", "message_id must not be empty"))
	}
	if err := r.Send(ctx, run, req.Msg.GetMessageId(), req.Msg.GetText()); err != nil {
		return nil, s.failed(ctx, err)
	}
	return connect.NewResponse(&runnerv1.SendResponse{}), nil
}

// Answer implements the service.
func (s *Server) Answer(ctx context.Context, req *connect.Request[runnerv1.AnswerRequest]) (*connect.Response[runnerv1.AnswerResponse], error) {
	r, run, err := s.runner(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	q := questionFrom(req.Msg.GetQuestion())
	if q.TaskID = run.TaskID; len(q.ID) < len(q.TaskID)+2 || !strings.HasPrefix(q.ID, q.TaskID) {
		return nil, fault(fleet.Invalid(fleet.ReasonInvalidArgument, "question.id", "question.id must be that of a question of the run"))
	}
	if err := r.Answer(ctx, run, q); err != nil {
		return nil, s.failed(ctx, err)
	}
	return connect.NewResponse(&runnerv1.AnswerResponse{}), nil
}

// runner returns the runner of the agent that the request was signed for, and the run.
func (s *Server) runner(h http.Header, a *runnerv1.Agent, run *runnerv1.Run) (fleet.Runner, fleet.Run, error) {
	switch {
	case a.GetUid() == "":
		return nil, fleet.Run{}, fault(fleet.Invalid(fleet.ReasonInvalidArgument, "agent.uid", "agent.uid must not be empty"))
	case a.GetUid() != h.Get(headerAgent):
		return nil, fleet.Run{}, fault(fleet.Invalid(fleet.ReasonInvalidArgument, "agent.uid", "agent.uid must be the one that the request was signed for"))
	case run.GetTaskId() == "":
		return nil, fleet.Run{}, fault(fleet.Invalid(fleet.ReasonInvalidArgument, "run.task_id", "run.task_id must not be empty"))
	}
	return s.runners.Connect(agentFrom(a)), runFrom(run), nil
}

func (s *Server) turn(uid string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns[uid] == nil {
		s.turns[uid] = make(chan struct{}, 1)
	}
	return s.turns[uid]
}

// failed turns an error for the wire, and logs it if the caller is told nothing of it.
func (s *Server) failed(ctx context.Context, err error) error {
	if fleet.ReasonOf(err) == fleet.ReasonInternal && ctx.Err() == nil {
		s.config.Logger.ErrorContext(ctx, "call failed", "err", err)
	}
	return fault(err)
}
