package remote

import (
	"context"
	"io"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// integrate makes a request to the repository and waits for its result. If the connection breaks, integrate repeats the request.
func (r repository) integrate(ctx context.Context, req *runnerv1.IntegrateRequest) (response *runnerv1.IntegrateResponse, err error) {
	if err := r.client.CheckLanding(ctx, r.agent); err != nil {
		return nil, err
	}
	req.Agent, req.Source, req.MaxWait = agentToProto(r.agent), r.source, r.client.maxWait()
	err = callStream(ctx, r.client, r.agent, r.client.rpc.Integrate, req, func(m *runnerv1.IntegrateResponse) bool {
		response = m
		return m.GetHeartbeat() == nil
	})
	return response, err
}

// maxMissingLFS is how many digests of missing Git LFS files are taken from a runner.
const maxMissingLFS = 10_000

// Collect implements Repository.
func (r repository) Collect(ctx context.Context, commit string) (CollectResult, error) {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Collect{Collect: &runnerv1.Collect{Commit: commit}}})
	c := response.GetCollected()
	return CollectResult{c.GetFound(), c.GetHave(), c.GetLarge()[:min(len(c.GetLarge()), maxMissingLFS)]}, err
}

// Branch implements Repository.
func (r repository) Branch(ctx context.Context, name string) (fleet.Branch, error) {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Branch{Branch: &runnerv1.BranchHead{Name: name}}})
	b := response.GetBranch()
	if err == nil && (b.GetName() == "" || b.GetCommit() == "") {
		err = unknownResultError(r.agent)
	}
	return fleet.Branch{Name: truncate(b.GetName()), Commit: truncate(b.GetCommit())}, err
}

// Contains implements Repository.
func (r repository) Contains(ctx context.Context, commit, older string) (bool, error) {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Contains{Contains: &runnerv1.Contains{Commit: commit, Older: older}}})
	return response.GetContains(), err
}

// Combine implements Repository.
func (r repository) Combine(ctx context.Context, c fleet.Combination) (fleet.CombineResult, error) {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Combine{Combine: combinationToProto(c)}})
	result := combineResultFromProto(response.GetCombined())
	if err == nil && result.Commit == "" && len(result.Conflicts) == 0 {
		err = unknownResultError(r.agent)
	}
	return result, err
}

// Overlaps implements Repository.
func (r repository) Overlaps(ctx context.Context, onto string, all []fleet.Contribution) ([]fleet.WorkOverlap, error) {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Compare{Compare: &runnerv1.Comparison{Onto: onto, Work: contributionsToProto(all)}}})
	return overlapsFromProto(response.GetOverlaps()), err
}

// Check implements Repository.
func (r repository) Check(ctx context.Context, commit string, c fleet.Check) (fleet.CheckResult, error) {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Check{Check: &runnerv1.CommitCheck{Commit: commit, Check: checkToProto(c)}}})
	if err != nil {
		return fleet.CheckResult{}, err
	}
	result := checkResultFromProto(response.GetChecked())
	result.Command = c.Command
	return result, nil
}

// Move implements Repository.
func (r repository) Move(ctx context.Context, b fleet.Branch, to string) error {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Move{Move: &runnerv1.Move{Branch: &runnerv1.BranchHead{Name: b.Name, Commit: b.Commit}, To: to}}})
	if err == nil && !response.GetMoved() {
		err = unknownResultError(r.agent)
	}
	return err
}

// Push implements Repository.
func (r repository) Push(ctx context.Context, p fleet.Push) (fleet.PushResult, error) {
	response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Push{Push: &runnerv1.Push{Commit: p.Commit, Branch: p.Branch, Remote: p.Remote}}})
	pushed := fleet.PushResult{Remote: truncate(response.GetPushed().GetRemote()), URL: truncate(response.GetPushed().GetUrl())}
	if err == nil && pushed.Remote == "" {
		err = unknownResultError(r.agent)
	}
	return pushed, err
}

// unknownResultError returns the error for a result that this version of Fleet does not know.
func unknownResultError(a fleet.Agent) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the runner of the agent %q gives a result that this version of Fleet does not know: upgrade Fleet", a.Name)
}

// Pack implements Repository.
func (r repository) Pack(ctx context.Context, commit string, have []string, includePushed bool, out io.Writer) error {
	if err := r.client.CheckLanding(ctx, r.agent); err != nil {
		return err
	}
	return r.readBundle(ctx, &runnerv1.BundleRequest{Commit: commit, Have: have, Whole: includePushed}, out)
}

// WriteLFS implements Repository.
func (r repository) WriteLFS(ctx context.Context, digest string, out io.Writer) error {
	if err := r.client.CheckLanding(ctx, r.agent); err != nil {
		return err
	}
	return r.readBundle(ctx, &runnerv1.BundleRequest{Large: digest}, out)
}
