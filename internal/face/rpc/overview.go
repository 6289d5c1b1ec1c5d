package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ShowFleet shows the state of the fleet in a few numbers.
func (f *Fleet) ShowFleet(ctx context.Context, _ *fleetv1.ShowFleetRequest) (*fleetv1.ShowFleetResponse, error) {
	o, err := f.svc.Overview(ctx)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShowFleetResponse{
		Agents: int32Of(o.Agents), Busy: int32Of(o.Busy), Waiting: int32Of(o.Waiting), Stalled: int32Of(o.Stalled), Idle: int32Of(o.Idle),
		Offline: int32Of(o.Offline), Questions: int32Of(o.Questions), LastDay: usageOf(o.LastDay), Caller: o.Caller, Scope: scopeOf(o.Scope), Projects: o.Projects,
		Limits: limitsOf(o.Limits), Pending: int32Of(o.Queue.Pending), PendingReasons: reasonsOf(o.Queue), Paused: pauseOf(o.Queue.Paused),
		Credentials: credentialsOf(o.Credentials, f.svc.Now()), Budgets: listOf(o.Budgets, budgetOf),
	}, nil
}

func limitsOf(uses []service.LimitUse) (limits []*fleetv1.Limit) {
	for _, u := range uses {
		l := &fleetv1.Limit{
			Setting: u.Setting(), Max: float64(u.Max), Kind: fleetv1.Limit_Kind(fleetv1.Limit_Kind_value[u.Kind]),
			Group: optional(u.Group), Principal: optional(u.Principal), Project: optional(u.Project),
		}
		if u.Used >= 0 {
			l.Used = new(float64(u.Used))
		}
		limits = append(limits, l)
	}
	return limits
}

// SearchFleet finds agents, tasks and questions by a text.
func (f *Fleet) SearchFleet(ctx context.Context, r *fleetv1.SearchFleetRequest) (*fleetv1.SearchFleetResponse, error) {
	found, err := f.svc.Search(ctx, r.GetText(), intIn(r.Limit))
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.SearchFleetResponse{}
	for _, v := range found.Agents {
		resp.Items = append(resp.Items, &fleetv1.FoundItem{
			Kind: fleetv1.FoundItem_agent, AgentName: v.Name, Owner: v.Owner, Status: optional(string(v.Status())), Text: textOf(v.Project),
		})
	}
	for _, q := range found.Questions {
		resp.Items = append(resp.Items, &fleetv1.FoundItem{Kind: fleetv1.FoundItem_question, Id: optional(q.ID), AgentName: q.AgentName, Owner: q.Owner, Text: textOf(fleet.Shorten(q.Text, fleet.MaxRowDescription))})
	}
	for _, t := range found.Tasks {
		resp.Items = append(resp.Items, &fleetv1.FoundItem{
			Kind: fleetv1.FoundItem_task, Id: optional(t.ID), AgentName: t.AgentName, Owner: t.Owner, Status: optional(string(t.Status)), Text: textOf(t.Excerpt()),
		})
	}
	return resp, nil
}
