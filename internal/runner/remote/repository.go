package remote

import (
	"context"
	"io"
	"slices"

	"connectrpc.com/connect"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// Repositories is an additional interface of Runners that can combine the work of agents.
type Repositories interface {
	// Repository returns the repository of the agent's project. The error is UNIMPLEMENTED if the agent does not work in a clone of a
	// repository.
	Repository(ctx context.Context, a fleet.Agent, s Source) (Repository, error)
}

// Source says where the repository of a project is.
type Source struct {
	URL    string // empty: the URL of the remote of the agent's clone
	Branch string // the branch at which work begins; empty: the default branch
}

// Repository is a copy of a project's repository, next to the clone of an agent. Branch and the methods after it are like those of
// fleet.Repository.
type Repository interface {
	// Collect copies the commit from the agent's clone, if the clone has it, and reports whether the repository has it afterwards.
	Collect(ctx context.Context, commit string) (CollectResult, error)
	// Unpack adds the commit from a git pack or a git bundle, and reports whether the repository has the commit afterwards.
	Unpack(ctx context.Context, commit string, in io.Reader) (found bool, err error)
	// Pack writes a git pack with the commit of the agent's clone. It leaves out the objects that the commits in have need and,
	// unless includePushed is set, those that the branches of the clone's remotes have. The error is CHANGES_NOT_FOUND if the clone does
	// not have the commit.
	Pack(ctx context.Context, commit string, have []string, includePushed bool, out io.Writer) error

	// WriteLFS writes the Git LFS file with the digest from the agent's clone. The error is CHANGES_NOT_FOUND if the clone does
	// not have the file.
	WriteLFS(ctx context.Context, digest string, out io.Writer) error
	// AddLFS adds a Git LFS file, and reports whether its content has the digest.
	AddLFS(ctx context.Context, digest string, in io.Reader) (ok bool, err error)

	Branch(ctx context.Context, name string) (fleet.Branch, error)
	Contains(ctx context.Context, commit, older string) (bool, error)
	Combine(ctx context.Context, c fleet.Combination) (fleet.CombineResult, error)
	Overlaps(ctx context.Context, onto string, all []fleet.Contribution) ([]fleet.WorkOverlap, error)
	Check(ctx context.Context, commit string, c fleet.Check) (fleet.CheckResult, error)
	Move(ctx context.Context, b fleet.Branch, to string) error
	// Push pushes a commit of the agent's clone to a remote of the clone.
	Push(ctx context.Context, p fleet.Push) (fleet.PushResult, error)
}

// CollectResult is the result of Repository.Collect.
type CollectResult struct {
	Found      bool     // the repository has the commit
	Have       []string // commits that the repository has; only if the commit is not found
	MissingLFS []string // digests of Git LFS files whose content is missing; only if the commit is found
}

// landingFeature is the name of the feature of runners that have repositories.
const landingFeature = "landing"

// repository returns the repository of the agent.
func (s *Server) repository(ctx context.Context, a *runnerv1.Agent, source *runnerv1.Source) (Repository, error) {
	repositories, ok := s.runners.(Repositories)
	if !ok {
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "this runner cannot combine work")
	}
	return repositories.Repository(ctx, agentFromProto(a), Source{source.GetUrl(), source.GetBranch()})
}

// Integrate implements the service.
func (s *Server) Integrate(ctx context.Context, req *connect.Request[runnerv1.IntegrateRequest], stream *connect.ServerStream[runnerv1.IntegrateResponse]) error {
	m := req.Msg
	if _, err := s.runnerOf(req.Header(), m.GetAgent()); err != nil {
		return err
	}
	heartbeat := &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Heartbeat{Heartbeat: &runnerv1.Heartbeat{}}}
	return respond(ctx, s, stream, heartbeat, m.GetMaxWait().AsDuration(), func(response *responseStream[runnerv1.IntegrateResponse]) (*runnerv1.IntegrateResponse, error) {
		r, err := s.repository(response.workCtx, m.GetAgent(), m.GetSource())
		if err != nil {
			return nil, err
		}
		return s.integrate(response.workCtx, r, m)
	})
}

// integrate calls the method of r that the request selects.
func (s *Server) integrate(ctx context.Context, r Repository, m *runnerv1.IntegrateRequest) (*runnerv1.IntegrateResponse, error) {
	switch c := m.GetCall().(type) {
	case *runnerv1.IntegrateRequest_Collect:
		collected, err := r.Collect(ctx, c.Collect.GetCommit())
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Collected{Collected: &runnerv1.Collected{Found: collected.Found, Have: collected.Have, Large: collected.MissingLFS}}}, err
	case *runnerv1.IntegrateRequest_Unpack:
		found, err := s.unpack(ctx, r, m.GetAgent().GetUid()+"\x00"+c.Unpack.GetUploadId(), c.Unpack)
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Collected{Collected: &runnerv1.Collected{Found: found}}}, err
	case *runnerv1.IntegrateRequest_Branch:
		b, err := r.Branch(ctx, c.Branch.GetName())
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Branch{Branch: &runnerv1.BranchHead{Name: toValidUTF8(b.Name), Commit: b.Commit}}}, err
	case *runnerv1.IntegrateRequest_Contains:
		has, err := r.Contains(ctx, c.Contains.GetCommit(), c.Contains.GetOlder())
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Contains{Contains: has}}, err
	case *runnerv1.IntegrateRequest_Combine:
		result, err := r.Combine(ctx, combinationFromProto(c.Combine))
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Combined{Combined: combineResultToProto(result)}}, err
	case *runnerv1.IntegrateRequest_Compare:
		all, err := r.Overlaps(ctx, c.Compare.GetOnto(), contributionsFromProto(c.Compare.GetWork()))
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Overlaps{Overlaps: overlapsToProto(all)}}, err
	case *runnerv1.IntegrateRequest_Check:
		result, err := r.Check(ctx, c.Check.GetCommit(), checkFromProto(c.Check.GetCheck()))
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Checked{Checked: checkResultToProto(result)}}, err
	case *runnerv1.IntegrateRequest_Move:
		err := r.Move(ctx, fleet.Branch{Name: c.Move.GetBranch().GetName(), Commit: c.Move.GetBranch().GetCommit()}, c.Move.GetTo())
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Moved{Moved: true}}, err
	case *runnerv1.IntegrateRequest_Push:
		p, err := r.Push(ctx, fleet.Push{Commit: c.Push.GetCommit(), Branch: c.Push.GetBranch(), Remote: c.Push.GetRemote()})
		return &runnerv1.IntegrateResponse{Event: &runnerv1.IntegrateResponse_Pushed{Pushed: &runnerv1.Pushed{Remote: toValidUTF8(p.Remote), Url: toValidUTF8(p.URL)}}}, err
	}
	return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the runner of the agent cannot do this: restart its workspace with a newer fleet-runner")
}

// Repository returns the repository of the project, next to the clone of the agent. It makes no request.
func (c *Client) Repository(a fleet.Agent, s Source) Repository {
	return repository{runner{c, a}, &runnerv1.Source{Url: s.URL, Branch: s.Branch}}
}

// repository is a Repository over a network.
type repository struct {
	runner
	source *runnerv1.Source
}

// CheckLanding returns UNIMPLEMENTED if the runner of the agent cannot combine work. It makes a handshake if there was none, or if the last
// one shows that the runner cannot.
func (c *Client) CheckLanding(ctx context.Context, a fleet.Agent) error {
	return c.callWithRetry(ctx, a, func(ctx context.Context) error {
		return c.checkSession(ctx, a.UID, func(s *session) error {
			if slices.Contains(s.features, landingFeature) {
				return nil
			}
			return fleet.Errorf(fleet.ReasonUnimplemented, "the runner of the agent %q cannot combine work: restart its workspace with a newer fleet-runner", a.Name)
		})
	})
}
