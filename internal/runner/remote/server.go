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

// Runners provides the runners of agents. A fleet.Place implements it.
type Runners interface {
	Connect(a fleet.Agent) fleet.Runner
}

// ServerConfig configures a Server. Key is required.
type ServerConfig struct {
	Key     ed25519.PublicKey // Fleet's public key
	Version string            // version of this program
	Options []string          // names of the options of tasks that the runners support
	Logger  *slog.Logger      // nil disables logging
	// Heartbeat is the interval of heartbeats on a stream. 0 means 5 s.
	Heartbeat time.Duration
	Now       func() time.Time // nil means time.Now
}

const defaultHeartbeat = 5 * time.Second

// Server serves runners to Fleet.
type Server struct {
	config   ServerConfig
	runners  Runners
	verifier *verifier

	mu    sync.Mutex
	turns map[string]*turn // by the agent's uid

	bundles bundles
	uploads uploads
}

var _ runnerv1connect.RunnerServiceHandler = (*Server)(nil)

// NewServer creates a Server. It fails if the key is not valid.
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
		config: c, runners: runners, turns: map[string]*turn{}, bundles: bundles{byID: map[string]*bundle{}},
		verifier: &verifier{key: c.Key, instance: rand.Text(), now: c.Now, nonces: map[string]time.Time{}},
	}, nil
}

// VersionHeader is the name of a header in every response of a runner. Its value is the runner's version. A response without
// this header comes from something else, for example a proxy.
const VersionHeader = "Fleet-Runner"

// Handler returns a handler for the protocol, and for /healthz.
func (s *Server) Handler() http.Handler {
	_, rpc := runnerv1connect.NewRunnerServiceHandler(s, connect.WithReadMaxBytes(maxRequest), connect.WithRecover(
		func(ctx context.Context, spec connect.Spec, _ http.Header, p any) error {
			s.config.Logger.ErrorContext(ctx, "call panicked", "procedure", spec.Procedure, "panic", p)
			return toFault(errors.New("panic"))
		}))
	errorWriter := connect.NewErrorWriter()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("POST /"+runnerv1connect.RunnerServiceName+"/", func(w http.ResponseWriter, r *http.Request) {
		if procedureOf(r.URL.Path) != runnerv1connect.RunnerServiceHandshakeProcedure {
			if err := s.verifier.check(w, r); err != nil {
				s.config.Logger.WarnContext(r.Context(), "request refused", "procedure", procedureOf(r.URL.Path), "error", err)
				_ = errorWriter.Write(w, r, toFault(err))
				return
			}
		}
		rpc.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(VersionHeader, cmp.Or(s.config.Version, "unknown"))
		mux.ServeHTTP(w, r)
	})
}

// Handshake implements the service.
func (s *Server) Handshake(context.Context, *connect.Request[runnerv1.HandshakeRequest]) (*connect.Response[runnerv1.HandshakeResponse], error) {
	var features []string
	if _, ok := s.runners.(Repositories); ok {
		features = []string{landingFeature}
	}
	return connect.NewResponse(&runnerv1.HandshakeResponse{
		Protocol: Protocol, OldestProtocol: OldestProtocol, Version: s.config.Version, Instance: s.verifier.instance,
		Now: timestamppb.New(s.config.Now()), TaskOptions: s.config.Options, Features: features,
	}), nil
}

// Dispatch implements the service.
func (s *Server) Dispatch(ctx context.Context, req *connect.Request[runnerv1.DispatchRequest]) (*connect.Response[runnerv1.DispatchResponse], error) {
	r, run, err := s.runnerAndRun(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	if run.Timeout <= 0 {
		return nil, toFault(fleet.InvalidField("run.timeout", "run.timeout must be positive"))
	}
	ctx, endTurn, err := s.takeTurn(ctx, req.Msg.GetAgent().GetUid())
	if err != nil {
		return nil, toFault(err)
	}
	defer endTurn()
	return reply(ctx, s, &runnerv1.DispatchResponse{}, r.Dispatch(ctx, run))
}

// Follow implements the service.
func (s *Server) Follow(ctx context.Context, req *connect.Request[runnerv1.FollowRequest], stream *connect.ServerStream[runnerv1.FollowResponse]) error {
	r, run, err := s.runnerAndRun(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return err
	}
	heartbeat := &runnerv1.FollowResponse{Event: &runnerv1.FollowResponse_Heartbeat{Heartbeat: &runnerv1.Heartbeat{}}}
	return respond(ctx, s, stream, heartbeat, req.Msg.GetMaxWait().AsDuration(), func(response *responseStream[runnerv1.FollowResponse]) (*runnerv1.FollowResponse, error) {
		o, err := r.Follow(response.workCtx, run, req.Msg.GetCursor(), func(out fleet.Output) error {
			return response.send(&runnerv1.FollowResponse{Event: &runnerv1.FollowResponse_Output{Output: outputToProto(out)}})
		})
		return &runnerv1.FollowResponse{Event: &runnerv1.FollowResponse_Outcome{Outcome: outcomeToProto(o)}}, err
	})
}

// Interrupt implements the service.
func (s *Server) Interrupt(ctx context.Context, req *connect.Request[runnerv1.InterruptRequest]) (*connect.Response[runnerv1.InterruptResponse], error) {
	r, run, err := s.runnerAndRun(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	return reply(ctx, s, &runnerv1.InterruptResponse{}, r.Interrupt(ctx, run, req.Msg.GetKill()))
}

// Send implements the service.
func (s *Server) Send(ctx context.Context, req *connect.Request[runnerv1.SendRequest]) (*connect.Response[runnerv1.SendResponse], error) {
	r, run, err := s.runnerAndRun(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	if req.Msg.GetMessageId() == "" {
		return nil, toFault(fleet.InvalidField("message_id", "message_id must not be empty"))
	}
	run.Confirmed = req.Msg.GetConfirmed()
	return reply(ctx, s, &runnerv1.SendResponse{}, r.Send(ctx, run, req.Msg.GetMessageId(), req.Msg.GetText()))
}

// Answer implements the service.
func (s *Server) Answer(ctx context.Context, req *connect.Request[runnerv1.AnswerRequest]) (*connect.Response[runnerv1.AnswerResponse], error) {
	r, run, err := s.runnerAndRun(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	q := questionFromProto(req.Msg.GetQuestion())
	if q.TaskID = run.TaskID; len(q.ID) < len(q.TaskID)+2 || !strings.HasPrefix(q.ID, q.TaskID) {
		return nil, toFault(fleet.InvalidField("question.id", "question.id must be the id of a question of the run"))
	}
	return reply(ctx, s, &runnerv1.AnswerResponse{}, r.Answer(ctx, run, q))
}

// runnerOf returns the runner of the agent. It fails if the request was not signed for this agent.
func (s *Server) runnerOf(h http.Header, a *runnerv1.Agent) (fleet.Runner, error) {
	switch {
	case a.GetUid() == "":
		return nil, toFault(fleet.InvalidField("agent.uid", "agent.uid must not be empty"))
	case a.GetUid() != h.Get(headerAgent):
		return nil, toFault(fleet.InvalidField("agent.uid", "agent.uid must be the uid for which the request was signed"))
	}
	return s.runners.Connect(agentFromProto(a)), nil
}

// runnerAndRun returns the runner of the agent, like runnerOf, and the run.
func (s *Server) runnerAndRun(h http.Header, a *runnerv1.Agent, run *runnerv1.Run) (fleet.Runner, fleet.Run, error) {
	r, err := s.runnerOf(h, a)
	if err == nil && run.GetTaskId() == "" {
		err = toFault(fleet.InvalidField("run.task_id", "run.task_id must not be empty"))
	}
	return r, runFromProto(run), err
}

// reply returns the response, or the error for the wire.
func reply[M any](ctx context.Context, s *Server, m *M, err error) (*connect.Response[M], error) {
	if err != nil {
		return nil, s.wireError(ctx, err)
	}
	return connect.NewResponse(m), nil
}

// wireError converts an error for the wire. It logs an internal error, because the caller does not learn the cause.
func (s *Server) wireError(ctx context.Context, err error) error {
	if fleet.ReasonOf(err) == fleet.ReasonInternal && ctx.Err() == nil {
		s.config.Logger.ErrorContext(ctx, "call failed", "error", err)
	}
	return toFault(err)
}
