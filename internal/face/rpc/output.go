package rpc

import (
	"context"
	"math"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// maxOffset is the largest offset of a request. A JSON number, which is a float64, holds all whole numbers up to it exactly.
const maxOffset = 1 << 53

// ShowTaskOutput shows a part of the raw output of a task.
func (f *Fleet) ShowTaskOutput(ctx context.Context, r *fleetv1.ShowTaskOutputRequest) (*fleetv1.ShowTaskOutputResponse, error) {
	if err := portionIn(nil, r.Limit, r.Tail).Validate(""); err != nil {
		return nil, err
	}
	offset := r.GetOffset()
	if !(offset >= 0 && offset <= maxOffset) || offset != math.Trunc(offset) {
		return nil, fleet.InvalidField("offset", "offset is %g: give the next_offset of an answer", offset)
	}
	if r.Offset != nil && r.Tail != nil {
		return nil, fleet.InvalidField("tail", "offset and tail are both given: give only one of them")
	}
	p, more, err := f.svc.TaskOutput(ctx, service.OutputRequest{
		TaskID: r.GetTaskId(), Offset: int64(offset), Limit: int(r.GetLimit()), Tail: int(r.GetTail()),
	})
	if err != nil {
		return nil, err
	}
	text, encoding := payloadOf(p.Data)
	resp := &fleetv1.ShowTaskOutputResponse{Output: text, OutputEncoding: encoding, Offset: float64(p.Offset), Size: float64(p.Size)}
	if more {
		resp.NextOffset = new(float64(p.Offset + int64(len(p.Data))))
	}
	if p.GapSize > 0 {
		resp.GapOffset, resp.GapSize = new(float64(p.GapOffset)), new(float64(p.GapSize))
	}
	return resp, nil
}
