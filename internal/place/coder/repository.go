package coder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

// Repository implements fleet.Integrator.
func (p *Place) Repository(project string) (fleet.Repository, error) {
	return &repository{place: p, project: project, pushers: map[string]fleet.Agent{}}, nil
}

// repository implements fleet.Repository for a project. The repository is the one from which the agents' clones come, for
// example on a forge. One of the workspaces, the host, has a copy of the repository, in which work is brought together. The
// commits of other agents are transferred there. All calls of one repository use the same host, so that each call finds the
// results of earlier calls. If the host can no longer be reached, the caller begins again with another repository value.
type repository struct {
	place   *Place
	project string

	mu      sync.Mutex
	host    remote.Repository
	pushers map[string]fleet.Agent // the agent that made each commit, and pushes it
}

// connect returns the repository's copy in the host. The first call that succeeds chooses the host: the best candidate that
// answers. If none does, the error is that of the best candidate.
func (r *repository) connect(ctx context.Context) (remote.Repository, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.host != nil {
		return r.host, nil
	}
	candidates, proj, err := r.candidates(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range candidates {
		a := fleet.Agent{UID: cmp.Or(r.place.index.agent(w.ws.ID), w.ws.ID.String()), Name: w.name, Owner: w.owner, Project: proj.Name}
		client, cerr := r.place.client(a, w.workspace)
		if cerr == nil {
			r.host = client.Repository(a, remote.Source{URL: proj.Repository, Branch: proj.Branch})
			_, cerr = r.host.Contains(ctx, "", "") // refuse runners that do not support this, or that belong to another Fleet
		}
		if cerr != nil {
			r.host = nil
			if fleet.ReasonOf(cerr) == fleet.ReasonUnauthenticated {
				cerr = fleet.Errorf(fleet.ReasonAgentOffline, "the workspace of the agent %q belongs to another Fleet: restart the agent with take_over", a.Name).WithCause(cerr)
			}
			if err = cmp.Or(err, cerr); ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue
		}
		r.place.lastHosts.Store(r.project, w.name) // prefer this host later, because it has the results of this call
		return r.host, nil
	}
	return nil, err
}

// candidates returns the workspaces of the project that can be the host, the best one first: the last host, then the oldest
// workspace. It returns an error if there is none.
func (r *repository) candidates(ctx context.Context) ([]*hostedWorkspace, *templateProject, error) {
	proj, err := r.place.findListedProject(ctx, r.project, catalogAge)
	if fleet.ReasonOf(err) == fleet.ReasonProjectNotFound { // the template may be new
		proj, err = r.place.findProject(ctx, r.project)
	}
	if err != nil {
		return nil, nil, err
	}
	name, owner := fleet.SplitOwnedRef(proj.Lander)
	if owner == "" && r.place.config.Owner == OwnerPrincipal { // a name alone would also fit an agent of another owner
		return nil, nil, fleet.Errorf(fleet.ReasonUnimplemented,
			"the workspaces of the project %q belong to several people, and Fleet must not push with the credentials of just anybody: set lander of the project to the agent whose workspace lands work, as NAME@OWNER", proj.Name)
	}
	all, err := r.place.workspaces(ctx)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(w *hostedWorkspace) bool {
		return w.project.Name != proj.Name || w.state != fleet.StateRunning || !w.hasRunner() ||
			proj.Lander != "" && !strings.EqualFold(w.name, name) || owner != "" && w.owner != owner
	})
	switch {
	case len(all) > 0:
	case proj.Lander != "":
		return nil, nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q, whose workspace lands the work on the project %q, does not run with a fleet-runner: start it", proj.Lander, proj.Name)
	default:
		return nil, nil, fleet.Errorf(fleet.ReasonAgentOffline, "no workspace of the project %q runs with a fleet-runner, so there is nowhere to combine work: start one of its agents", proj.Name)
	}
	last, _ := r.place.lastHosts.Load(r.project)
	rank := func(w *hostedWorkspace) int {
		if w.name == last {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b *hostedWorkspace) int {
		return cmp.Or(rank(a)-rank(b), a.ws.CreatedAt.Compare(b.ws.CreatedAt), strings.Compare(a.name, b.name))
	})
	return all, proj, nil
}

// Collect implements fleet.Repository. If the host lacks the commit, Collect transfers it from the agent's workspace.
func (r *repository) Collect(ctx context.Context, a fleet.Agent, c fleet.Changes) error {
	host, err := r.connect(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.pushers[c.Commit] = a
	r.mu.Unlock()
	collected, err := host.Collect(ctx, c.Commit)
	if err != nil || collected.Found && len(collected.MissingLFS) == 0 {
		return err
	}
	from, err := r.agentRepository(ctx, a)
	if err != nil {
		return err
	}
	if collected, err = transferCommit(ctx, from, host, c.Commit, collected); err != nil {
		return err
	}
	for _, digest := range collected.MissingLFS {
		ok, err := transfer(ctx, func(ctx context.Context, out io.Writer) error { return from.WriteLFS(ctx, digest, out) },
			func(ctx context.Context, in io.Reader) (bool, error) { return host.AddLFS(ctx, digest, in) })
		if err == nil && !ok {
			err = fleet.Errorf(fleet.ReasonChangesNotFound, "the content of the Git LFS file %s cannot be read from the workspace of the agent %q", fleet.Shorten(digest, 12), a.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// transferCommit transfers the commit to the host, unless the host already has it. collected is the result of the host's last
// Collect. If the host cannot use a pack without the objects that it has, the whole history is sent. After a transfer,
// transferCommit returns the result of another Collect.
func transferCommit(ctx context.Context, from, host remote.Repository, commit string, collected remote.CollectResult) (remote.CollectResult, error) {
	for _, whole := range []bool{false, true} {
		if collected.Found {
			return collected, nil
		}
		found, err := transfer(ctx, func(ctx context.Context, out io.Writer) error {
			return from.Pack(ctx, commit, collected.Have, whole, out)
		},
			func(ctx context.Context, in io.Reader) (bool, error) { return host.Unpack(ctx, commit, in) })
		if err == nil && found {
			return host.Collect(ctx, commit)
		}
		if err != nil {
			return collected, err
		}
	}
	return collected, newLostWorkError(commit)
}

func newLostWorkError(commit string) error {
	return fleet.Errorf(fleet.ReasonChangesNotFound, "the commit %s cannot be read completely from its agent's workspace", fleet.ShortCommit(commit))
}

// agentRepository returns the repository next to the agent's clone, in the agent's workspace.
func (r *repository) agentRepository(ctx context.Context, a fleet.Agent) (remote.Repository, error) {
	w, err := r.place.find(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return nil, fleet.Errorf(fleet.ReasonChangesNotFound, "the work is not in a workspace any more, because that of the agent %q was deleted", a.Name)
	}
	client, err := r.place.client(a, w)
	if err != nil {
		return nil, err
	}
	return client.Repository(a, remote.Source{}), nil
}

// transfer passes the data that read writes in one workspace to add in another workspace. It does not interpret the data. ok is the
// result of add.
func transfer(ctx context.Context, read func(context.Context, io.Writer) error, add func(context.Context, io.Reader) (bool, error)) (ok bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	readDone := make(chan error, 1)
	go func() {
		err := read(ctx, out)
		_ = out.CloseWithError(err)
		readDone <- err
	}()
	ok, err = add(ctx, in)
	_ = in.CloseWithError(io.ErrClosedPipe)
	cause := <-readDone
	switch {
	case cause == nil || errors.Is(cause, io.ErrClosedPipe): // the receiver has failed, or needs no more data
		return ok, err
	case fleet.ReasonOf(cause) == fleet.ReasonBackendUnavailable: // this reason would mean that the host cannot be reached
		return false, fleet.Errorf(fleet.ReasonAgentOffline, "the work is in a workspace that cannot be reached: %s", fleet.PublicMessage(cause)).WithCause(cause)
	}
	return false, cause
}

// Import implements fleet.Importer.
func (r *repository) Import(ctx context.Context, c fleet.Changes, bundle []byte) error {
	host, err := r.connect(ctx)
	if err != nil {
		return err
	}
	collected, err := host.Collect(ctx, c.Commit)
	if err == nil && !collected.Found {
		if collected.Found, err = host.Unpack(ctx, c.Commit, bytes.NewReader(bundle)); err == nil && collected.Found {
			collected, err = host.Collect(ctx, c.Commit)
		}
	}
	switch {
	case err != nil:
		return err
	case len(collected.MissingLFS) > 0:
		return fleet.Errorf(fleet.ReasonChangesNotFound, "the work has %d files of Git LFS whose content was only in the deleted workspace", len(collected.MissingLFS))
	case !collected.Found:
		return fleet.Errorf(fleet.ReasonChangesNotFound, "what Fleet has kept of the agent's work does not have the commit %s, or needs commits that the project's repository no longer has", fleet.ShortCommit(c.Commit))
	}
	return nil
}

// callHost runs call with the repository's copy in the host.
func callHost[T any](ctx context.Context, r *repository, call func(remote.Repository) (T, error)) (result T, err error) {
	host, err := r.connect(ctx)
	if err != nil {
		return result, err
	}
	return call(host)
}

// Branch implements fleet.Repository.
func (r *repository) Branch(ctx context.Context, name string) (fleet.Branch, error) {
	return callHost(ctx, r, func(host remote.Repository) (fleet.Branch, error) { return host.Branch(ctx, name) })
}

// Contains implements fleet.Repository.
func (r *repository) Contains(ctx context.Context, commit, older string) (bool, error) {
	return callHost(ctx, r, func(host remote.Repository) (bool, error) { return host.Contains(ctx, commit, older) })
}

// Combine implements fleet.Repository.
func (r *repository) Combine(ctx context.Context, c fleet.Combination) (fleet.CombineResult, error) {
	return callHost(ctx, r, func(host remote.Repository) (fleet.CombineResult, error) { return host.Combine(ctx, c) })
}

// Overlaps implements fleet.Repository.
func (r *repository) Overlaps(ctx context.Context, onto string, all []fleet.Contribution) ([]fleet.WorkOverlap, error) {
	return callHost(ctx, r, func(host remote.Repository) ([]fleet.WorkOverlap, error) { return host.Overlaps(ctx, onto, all) })
}

// Check implements fleet.Repository.
func (r *repository) Check(ctx context.Context, commit string, c fleet.Check) (fleet.CheckResult, error) {
	return callHost(ctx, r, func(host remote.Repository) (fleet.CheckResult, error) { return host.Check(ctx, commit, c) })
}

// Move implements fleet.Repository. The host pushes with its own credentials.
func (r *repository) Move(ctx context.Context, b fleet.Branch, to string) error {
	host, err := r.connect(ctx)
	if err != nil {
		return err
	}
	return host.Move(ctx, b, to)
}

// Push implements fleet.Repository. The workspace of the agent that made the commit pushes it, with its own credentials,
// because the credentials in another workspace can belong to somebody else.
func (r *repository) Push(ctx context.Context, push fleet.Push) (fleet.PushResult, error) {
	r.mu.Lock()
	a, known := r.pushers[push.Commit]
	r.mu.Unlock()
	if !known {
		return fleet.PushResult{}, newLostWorkError(push.Commit)
	}
	from, err := r.agentRepository(ctx, a)
	if err != nil {
		return fleet.PushResult{}, err
	}
	return from.Push(ctx, push)
}
