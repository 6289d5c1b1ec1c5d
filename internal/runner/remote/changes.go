package remote

import (
	"context"
	"strings"

	"connectrpc.com/connect"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// Limits for data of a runner, in bytes. The client enforces them, because an agent can replace its runner.
const (
	maxPage = 16 << 20 // a page of a patch or of an output
	maxText = 4 << 10  // a path, a reason or another short text
)

// Changes implements the service.
func (s *Server) Changes(ctx context.Context, req *connect.Request[runnerv1.ChangesRequest]) (*connect.Response[runnerv1.ChangesResponse], error) {
	r, run, err := s.runnerAndRun(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return nil, err
	}
	ctx, endTurn, err := s.takeTurn(ctx, req.Msg.GetAgent().GetUid())
	if err != nil {
		return nil, toFault(err)
	}
	defer endTurn()
	c, err := r.Changes(ctx, run)
	return reply(ctx, s, &runnerv1.ChangesResponse{Changes: changesToProto(c)}, err)
}

// Patch implements the service.
func (s *Server) Patch(ctx context.Context, req *connect.Request[runnerv1.PatchRequest]) (*connect.Response[runnerv1.PatchResponse], error) {
	m := req.Msg
	r, err := s.runnerOf(req.Header(), m.GetAgent())
	if err != nil {
		return nil, err
	}
	if m.GetOffset() < 0 || m.GetLimit() < 1 || m.GetLimit() > maxPage {
		return nil, toFault(fleet.InvalidField("limit", "offset must not be negative, and limit must be between 1 and %d", maxPage))
	}
	c := fleet.Changes{Base: m.GetBase(), Commit: m.GetCommit()}
	text, more, err := r.Patch(ctx, c, m.GetPath(), m.GetOffset(), int(m.GetLimit()))
	return reply(ctx, s, &runnerv1.PatchResponse{Text: text, More: more}, err)
}

// Compare implements the service.
func (s *Server) Compare(ctx context.Context, req *connect.Request[runnerv1.CompareRequest]) (*connect.Response[runnerv1.CompareResponse], error) {
	r, err := s.runnerOf(req.Header(), req.Msg.GetAgent())
	if err != nil {
		return nil, err
	}
	c, err := r.Compare(ctx, req.Msg.GetBase(), req.Msg.GetCommit())
	return reply(ctx, s, &runnerv1.CompareResponse{Changes: changesToProto(c)}, err)
}

// Changes implements fleet.Runner.
func (w runner) Changes(ctx context.Context, r fleet.Run) (*fleet.Changes, error) {
	m, err := call(ctx, w, w.client.rpc.Changes, &runnerv1.ChangesRequest{Agent: agentToProto(w.agent), Run: runReference(r)})
	return changesFromProto(m.GetChanges()), err
}

// Compare implements fleet.Runner.
func (w runner) Compare(ctx context.Context, base, commit string) (*fleet.Changes, error) {
	m, err := call(ctx, w, w.client.rpc.Compare, &runnerv1.CompareRequest{Agent: agentToProto(w.agent), Base: base, Commit: commit})
	return changesFromProto(m.GetChanges()), err
}

// Patch implements fleet.Runner.
func (w runner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) (text []byte, more bool, err error) {
	m, err := call(ctx, w, w.client.rpc.Patch, &runnerv1.PatchRequest{
		Agent: agentToProto(w.agent), Base: c.Base, Commit: c.Commit, Path: path, Offset: offset, Limit: int32(min(limit, maxPage)),
	})
	if text = m.GetText(); len(text) > limit {
		return text[:limit], true, err
	}
	return text, m.GetMore(), err
}

func changesToProto(c *fleet.Changes) *runnerv1.Changes {
	if c == nil {
		return nil
	}
	p := &runnerv1.Changes{
		Base: c.Base, Commit: c.Commit, Ref: c.Ref, Branch: toValidUTF8(c.Branch), Commits: int32(c.Commits), Dirty: c.Dirty, Pushed: c.Pushed,
		Files: int32(c.FileCount), Insertions: int32(c.Insertions), Deletions: int32(c.Deletions), At: timeToProto(c.At), Problem: toValidUTF8(c.Problem),
	}
	for _, f := range c.FileChanges {
		p.List = append(p.List, &runnerv1.FileChange{
			Path: toValidUTF8(f.Path), From: toValidUTF8(f.From), Kind: string(f.Kind), Insertions: int32(f.Insertions), Deletions: int32(f.Deletions),
			Binary: f.Binary,
		})
	}
	for _, entry := range c.LeftOut {
		p.LeftOut = append(p.LeftOut, toValidUTF8(entry))
	}
	return p
}

func changesFromProto(p *runnerv1.Changes) *fleet.Changes {
	if p == nil {
		return nil
	}
	c := &fleet.Changes{
		Base: truncate(p.GetBase()), Commit: truncate(p.GetCommit()), Ref: truncate(p.GetRef()), Branch: truncate(p.GetBranch()), Commits: int(p.GetCommits()), Dirty: p.GetDirty(),
		Pushed: p.GetPushed(), FileCount: int(p.GetFiles()), Insertions: int(p.GetInsertions()), Deletions: int(p.GetDeletions()),
		At: timeFromProto(p.GetAt()), Problem: truncate(p.GetProblem()),
	}
	for _, entry := range p.GetLeftOut()[:min(len(p.GetLeftOut()), fleet.MaxLeftOut)] {
		c.LeftOut = append(c.LeftOut, truncate(entry))
	}
	for _, f := range p.GetList()[:min(len(p.GetList()), fleet.MaxChangedFiles)] {
		c.FileChanges = append(c.FileChanges, fleet.FileChange{
			Path: truncate(f.GetPath()), From: truncate(f.GetFrom()), Kind: fleet.FileChangeKind(f.GetKind()), Insertions: int(f.GetInsertions()),
			Deletions: int(f.GetDeletions()), Binary: f.GetBinary(),
		})
	}
	return c
}

// truncate shortens the text to at most maxText bytes.
func truncate(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}
