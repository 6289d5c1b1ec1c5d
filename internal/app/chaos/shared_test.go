package chaos

import (
	"context"
	"errors"
	"io"
	"net"
	"net/rpc"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

// shared is a place that all servers use. The agents of the place are in the process of the test, so they outlive the
// servers. The place counts how often each task was dispatched.
type shared struct {
	path   string
	traits fleet.Traits
}

// serveShared serves a fake place at the socket path, and returns the fake place.
func serveShared(t *testing.T, path string) *fake.Place {
	world := fake.New(fake.Config{Traits: fleet.Traits{Name: "shared", PollInterval: 500 * time.Millisecond}})
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := rpc.NewServer()
	require.NoError(t, s.RegisterName("Place", &sharedServer{world}))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.ServeConn(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); world.Destroy() })
	return world
}

// Args and Result are the arguments and results of all calls.
type Args struct {
	Agent   fleet.Agent
	Run     fleet.Run
	Project string
	Text    string
	ID      string
	Kill    bool
}

type Result struct {
	Err       *Failure
	Traits    fleet.Traits
	Projects  []fleet.Project
	Roles     []fleet.Role
	Workspace fleet.Workspace
	All       []fleet.Workspace
	Text      string
	Outputs   []fleet.Output
	Outcome   *fleet.Outcome
}

// Failure is an error of the place.
type Failure struct {
	Reason  fleet.Reason
	Message string
}

func (r *Result) failed(err error) {
	if err != nil {
		r.Err = &Failure{fleet.ReasonOf(err), err.Error()}
	}
}

// sharedServer serves the calls of the place.
type sharedServer struct{ world *fake.Place }

func (s *sharedServer) Traits(_ Args, r *Result) error {
	r.Traits = s.world.Traits()
	r.Traits.Asks = false
	return nil
}

func (s *sharedServer) Projects(_ Args, r *Result) (_ error) {
	var err error
	r.Projects, err = s.world.Projects(context.Background())
	r.failed(err)
	return
}

func (s *sharedServer) Roles(q Args, r *Result) (_ error) {
	var err error
	r.Roles, err = s.world.Roles(context.Background(), q.Project)
	r.failed(err)
	return
}

func (s *sharedServer) Provision(q Args, r *Result) (_ error) {
	var err error
	r.Workspace, err = s.world.Provision(context.Background(), q.Agent)
	r.failed(err)
	return
}

func (s *sharedServer) Start(q Args, r *Result) (_ error) {
	r.failed(s.world.Start(context.Background(), q.Agent))
	return
}

func (s *sharedServer) Stop(q Args, r *Result) (_ error) {
	r.failed(s.world.Stop(context.Background(), q.Agent))
	return
}

func (s *sharedServer) Delete(q Args, r *Result) (_ error) {
	var err error
	r.Text, err = s.world.Delete(context.Background(), q.Agent)
	r.failed(err)
	return
}

func (s *sharedServer) Inspect(q Args, r *Result) (_ error) {
	var err error
	r.Workspace, err = s.world.Inspect(context.Background(), q.Agent)
	r.failed(err)
	return
}

func (s *sharedServer) List(_ Args, r *Result) (_ error) {
	var err error
	r.All, err = s.world.List(context.Background())
	r.failed(err)
	return
}

func (s *sharedServer) Dispatch(q Args, r *Result) (_ error) {
	r.failed(s.world.Connect(q.Agent).Dispatch(context.Background(), q.Run))
	return
}

// followFor is how long one call of Follow waits for output.
const followFor = 300 * time.Millisecond

func (s *sharedServer) Follow(q Args, r *Result) (_ error) {
	ctx, cancel := context.WithTimeout(context.Background(), followFor)
	defer cancel()
	o, err := s.world.Connect(q.Agent).Follow(ctx, q.Run, q.Text, func(o fleet.Output) error {
		r.Outputs = append(r.Outputs, o)
		return nil
	})
	switch {
	case err == nil:
		r.Outcome = &o
	case ctx.Err() == nil:
		r.failed(err)
	}
	return
}

func (s *sharedServer) Interrupt(q Args, r *Result) (_ error) {
	r.failed(s.world.Connect(q.Agent).Interrupt(context.Background(), q.Run, q.Kill))
	return
}

func (s *sharedServer) Send(q Args, r *Result) (_ error) {
	r.failed(s.world.Connect(q.Agent).Send(context.Background(), q.Run, q.ID, q.Text))
	return
}

// dialShared returns the place that serveShared serves at the path.
func dialShared(path string) (*shared, error) {
	s := &shared{path: path}
	r, err := s.call(context.Background(), "Traits", Args{})
	s.traits = r.Traits
	return s, err
}

// call uses a connection of its own, so that one call cannot delay another.
func (s *shared) call(ctx context.Context, method string, q Args) (r Result, err error) {
	c, err := rpc.Dial("unix", s.path)
	if err != nil {
		return r, fleet.Errorf(fleet.ReasonBackendUnavailable, "shared: %v", err)
	}
	defer func() { _ = c.Close() }()
	done := c.Go("Place."+method, q, &Result{}, make(chan *rpc.Call, 1)).Done
	select {
	case <-ctx.Done():
		return r, ctx.Err()
	case call := <-done:
		if call.Error != nil {
			return r, fleet.Errorf(fleet.ReasonBackendUnavailable, "shared: %v", call.Error)
		}
		r = *call.Reply.(*Result) //nolint:forcetypeassert // as given above
	}
	if r.Err != nil {
		return r, fleet.Errorf(r.Err.Reason, "%s", r.Err.Message)
	}
	return r, nil
}

func (s *shared) Traits() fleet.Traits { return s.traits }

func (s *shared) Projects(ctx context.Context) ([]fleet.Project, error) {
	r, err := s.call(ctx, "Projects", Args{})
	return r.Projects, err
}

func (s *shared) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	r, err := s.call(ctx, "Roles", Args{Project: project})
	return r.Roles, err
}

func (s *shared) Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	r, err := s.call(ctx, "Provision", Args{Agent: a})
	return r.Workspace, err
}

func (s *shared) Start(ctx context.Context, a fleet.Agent) error {
	_, err := s.call(ctx, "Start", Args{Agent: a})
	return err
}

func (s *shared) Stop(ctx context.Context, a fleet.Agent) error {
	_, err := s.call(ctx, "Stop", Args{Agent: a})
	return err
}

func (s *shared) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	r, err := s.call(ctx, "Delete", Args{Agent: a})
	return r.Text, err
}

func (s *shared) Inspect(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	r, err := s.call(ctx, "Inspect", Args{Agent: a})
	return r.Workspace, err
}

func (s *shared) List(ctx context.Context) ([]fleet.Workspace, error) {
	r, err := s.call(ctx, "List", Args{})
	return r.All, err
}

func (s *shared) Log(context.Context, fleet.Agent, int) ([]string, bool, error) {
	return nil, false, nil
}

func (s *shared) Connect(a fleet.Agent) fleet.Runner { return sharedRunner{place: s, agent: a} }

func (s *shared) Close() error { return nil }

// sharedRunner is a runner of the shared place. It implements only the methods that the place's traits promise.
type sharedRunner struct {
	fleet.Runner // nil: the rest is never called

	place *shared
	agent fleet.Agent
}

func (r sharedRunner) Dispatch(ctx context.Context, run fleet.Run) error {
	_, err := r.place.call(ctx, "Dispatch", Args{Agent: r.agent, Run: run})
	return err
}

func (r sharedRunner) Follow(ctx context.Context, run fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	for {
		got, err := r.place.call(ctx, "Follow", Args{Agent: r.agent, Run: run, Text: cursor})
		if err != nil {
			return fleet.Outcome{}, err
		}
		for _, o := range got.Outputs {
			if err := sink(o); err != nil {
				return fleet.Outcome{}, err
			}
			cursor = o.Cursor
		}
		if got.Outcome != nil {
			return *got.Outcome, nil
		}
	}
}

func (r sharedRunner) Interrupt(ctx context.Context, run fleet.Run, kill bool) error {
	_, err := r.place.call(ctx, "Interrupt", Args{Agent: r.agent, Run: run, Kill: kill})
	return err
}

func (r sharedRunner) Send(ctx context.Context, run fleet.Run, id, message string) error {
	_, err := r.place.call(ctx, "Send", Args{Agent: r.agent, Run: run, ID: id, Text: message})
	return err
}

func (r sharedRunner) Bundle(context.Context, io.Writer) error {
	return errors.ErrUnsupported
}
