package remote

import (
	"context"

	"connectrpc.com/connect"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// Output implements the service.
func (s *Server) Output(ctx context.Context, req *connect.Request[runnerv1.OutputRequest]) (*connect.Response[runnerv1.OutputResponse], error) {
	m := req.Msg
	r, run, err := s.runnerAndRun(req.Header(), m.GetAgent(), m.GetRun())
	if err != nil {
		return nil, err
	}
	if m.GetLimit() < 1 || m.GetLimit() > maxPage {
		return nil, toFault(fleet.InvalidField("limit", "limit must be between 1 and %d", maxPage))
	}
	p, err := r.Output(ctx, run, m.GetOffset(), int(m.GetLimit()))
	return reply(ctx, s, &runnerv1.OutputResponse{
		Data: p.Data, Offset: p.Offset, Size: p.Size, GapOffset: p.GapOffset, GapSize: p.GapSize,
	}, err)
}

// Output implements fleet.Runner. It corrects impossible numbers, because an agent can replace its runner.
func (w runner) Output(ctx context.Context, r fleet.Run, offset int64, limit int) (p fleet.OutputPage, err error) {
	limit = min(limit, maxPage)
	m, err := call(ctx, w, w.client.rpc.Output, &runnerv1.OutputRequest{
		Agent: agentToProto(w.agent), Run: runReference(r), Offset: offset, Limit: int32(limit), //nolint:gosec // at most maxPage
	})
	if err != nil {
		return p, err
	}
	return pageFromProto(m, limit), nil
}

// pageFromProto returns the page in a response, with consistent numbers.
func pageFromProto(m *runnerv1.OutputResponse, limit int) fleet.OutputPage {
	const maxExact = 1 << 53 // the largest exact JSON number
	p := fleet.OutputPage{Data: m.GetData()[:min(len(m.GetData()), limit)], Offset: min(max(m.GetOffset(), 0), maxExact)}
	p.Size = max(min(m.GetSize(), maxExact), p.Offset+int64(len(p.Data)))
	if m.GetGapSize() > 0 {
		p.GapOffset = min(max(m.GetGapOffset(), 0), p.Size)
		p.GapSize = min(m.GetGapSize(), p.Size-p.GapOffset)
	}
	return p
}
