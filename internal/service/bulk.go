package service

import (
	"context"
	"slices"

	"fleet/internal/fleet"
)

// PlanBulk makes a plan that says what the request does with each agent or task, and stores it for RunBulk. It changes nothing else.
func (s *Service) PlanBulk(ctx context.Context, req fleet.BulkRequest, requestID string) (*fleet.BulkPlan, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	c := Call{Method: "PlanBulk", RequestID: requestID, Body: req}
	result, repeated, err := s.EarlierResult(ctx, c)
	if err != nil {
		return nil, err
	}
	if repeated {
		return s.bulkPlan(ctx, p, result.ObjectID)
	}
	plan := &fleet.BulkPlan{ID: s.cfg.NewID(), Principal: p.Name, PlannedAtMicros: s.now().UnixMicro(), Request: req}
	if plan.Items, err = s.bulkItems(ctx, p, req); err != nil {
		return nil, err
	}
	plan.Request.Names = nil
	result, repeated, err = s.Once(ctx, c, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
		return CallResult{ObjectID: plan.ID}, fleet.PutResource(tx, fleet.BulkKind, plan.ID, plan)
	})
	if err != nil || !repeated {
		return plan, err
	}
	return s.bulkPlan(ctx, p, result.ObjectID)
}

// bulkPlan returns the stored plan.
func (s *Service) bulkPlan(ctx context.Context, p fleet.Principal, id string) (*fleet.BulkPlan, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.BulkPlan, error) { return readBulkPlan(tx, p, id) })
}

// readBulkPlan returns the plan with the id that p has made, or PLAN_NOT_FOUND.
func readBulkPlan(tx fleet.ReadTx, p fleet.Principal, id string) (*fleet.BulkPlan, error) {
	plan, err := fleet.ReadResource[fleet.BulkPlan](tx, fleet.BulkKind, id)
	if err != nil || plan != nil && plan.Principal == p.Name {
		return plan, err
	}
	id = fleet.Shorten(id, 60)
	return nil, fleet.Errorf(fleet.ReasonPlanNotFound, "there is no plan %q of yours: it may have been removed because it is old", id).With("plan_id", id).Next("{plan_bulk} makes a plan")
}

// bulkItems returns the items of the request: one for each agent or task, with the effect that the operation would have.
func (s *Service) bulkItems(ctx context.Context, p fleet.Principal, req fleet.BulkRequest) (items []fleet.BulkItem, err error) {
	if err := checkBulkRequest(req); err != nil {
		return nil, err
	}
	op, err := s.bulkOperation(ctx, p, req)
	if err != nil {
		return nil, err
	}
	switch {
	case req.Operation == fleet.BulkStopTask:
		items, err = s.stopItems(ctx, p, req)
	case len(req.Names) > 0:
		items, err = s.namedItems(ctx, op, req.Names)
	default:
		items, err = s.selectedItems(ctx, p, op, req.Selector)
	}
	if err != nil {
		return nil, err
	}
	if len(items) > fleet.MaxBulkItems {
		return nil, fleet.InvalidField("selector", "%d agents or tasks are selected: select at most %d", len(items), fleet.MaxBulkItems)
	}
	return withoutRepeats(items), nil
}

// checkBulkRequest returns INVALID_ARGUMENT if the request does not say which agents or tasks it is for, or has values that its operation
// does not use.
func checkBulkRequest(req fleet.BulkRequest) error {
	given := 0
	for _, isGiven := range []bool{len(req.Names) > 0, req.Selector != "", req.All} {
		if isGiven {
			given++
		}
	}
	switch {
	case given != 1:
		return fleet.InvalidField("names", "give names, selector or all, and only one of them")
	case len(req.Names) > fleet.MaxBulkItems:
		return fleet.InvalidField("names", "names has %d names: give at most %d", len(req.Names), fleet.MaxBulkItems)
	case len(req.RemoveLabels) > fleet.MaxLabels:
		return fleet.InvalidField("remove", "remove has %d keys: give at most %d", len(req.RemoveLabels), fleet.MaxLabels)
	}
	for field, values := range map[string][]string{"names": req.Names, "remove": req.RemoveLabels, "role": {req.Role}} {
		for _, v := range values {
			if err := checkOptionalText(field, field, v); err != nil {
				return err
			}
		}
	}
	for _, v := range []struct {
		field      string
		given      bool
		operations []fleet.BulkOperation // those that use the field
	}{
		{"text", req.Text != "", []fleet.BulkOperation{fleet.BulkMessage, fleet.BulkQueue}},
		{"labels", len(req.Labels) > 0, []fleet.BulkOperation{fleet.BulkLabel, fleet.BulkQueue}},
		{"remove", len(req.RemoveLabels) > 0, []fleet.BulkOperation{fleet.BulkLabel}},
		{"pool", req.Pool != "", []fleet.BulkOperation{fleet.BulkMove}},
		{"role", req.Role != "", []fleet.BulkOperation{fleet.BulkRestart}},
		{"update", req.Update, []fleet.BulkOperation{fleet.BulkRestart}},
		{"keep_unsaved", req.KeepUnsaved, []fleet.BulkOperation{fleet.BulkDelete}},
		{"priority", req.Priority != 0, []fleet.BulkOperation{fleet.BulkQueue}},
		{"timeout_seconds", req.Timeout != 0, []fleet.BulkOperation{fleet.BulkQueue}},
		{"max_cost_usd", req.MaxCostUSD != nil, []fleet.BulkOperation{fleet.BulkQueue}},
	} {
		if v.given && req.Operation != "" && !slices.Contains(v.operations, req.Operation) {
			return fleet.InvalidField("operation", "the operation %s does not use %s: leave it out", req.Operation, v.field)
		}
	}
	return nil
}

// namedItems returns an item for the agent of each name. The item of a name without such an agent has failed.
func (s *Service) namedItems(ctx context.Context, op bulkOperation, names []string) ([]fleet.BulkItem, error) {
	items := make([]fleet.BulkItem, 0, len(names))
	for _, name := range names {
		v, _, err := s.agent(ctx, name, op.needed)
		item := fleet.BulkItem{AgentName: name}
		if err == nil {
			item, err = op.item(v)
		} else if failItem(&item, err) {
			err = nil
		}
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// selectedItems returns an item for each agent that the selector matches and that p may use the operation on.
func (s *Service) selectedItems(ctx context.Context, p fleet.Principal, op bulkOperation, selector string) ([]fleet.BulkItem, error) {
	if err := s.refreshAgents(ctx); err != nil {
		return nil, err
	}
	rows, err := s.snap.AgentLists().List(p, fleet.ListAgentsRequest{Selector: selector}, "")
	if err != nil {
		return nil, err
	}
	var items []fleet.BulkItem
	for _, v := range rows.Agents {
		if !p.Access(&v.Agent).Allows(op.needed) {
			continue
		}
		item, err := op.item(v)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// item returns the item for the agent, with the predicted effect or, if the operation is not possible or changes nothing, its outcome.
func (op bulkOperation) item(v *fleet.AgentView) (item fleet.BulkItem, err error) {
	item = fleet.BulkItem{AgentUID: v.UID, AgentName: v.Name, Owner: v.Owner}
	effect, unchanged, err := op.predict(v)
	switch {
	case err != nil:
		if failItem(&item, err) {
			err = nil
		}
		return item, err
	case effect == "":
		item.Outcome, item.Message = fleet.BulkUnchanged, unchanged
		return item, nil
	}
	if item.Effect = effect; op.affectsTask && v.Task != nil {
		item.TaskID = v.Task.ID
	}
	return item, nil
}

// failItem records the error as the outcome of the item. It returns false, and records nothing, for an error that is not about the item.
func failItem(item *fleet.BulkItem, err error) bool {
	reason := fleet.ReasonOf(err)
	if reason == fleet.ReasonInternal {
		return false
	}
	item.Outcome, item.Reason, item.Message = fleet.BulkFailed, reason, fleet.PublicMessage(err)
	return true
}

// withoutRepeats returns the items without those that name the agent or the task of an earlier item.
func withoutRepeats(items []fleet.BulkItem) []fleet.BulkItem {
	type subject struct{ agent, task, name string }
	seen := map[subject]bool{}
	return slices.DeleteFunc(items, func(i fleet.BulkItem) bool {
		key := subject{agent: i.AgentUID, task: i.TaskID}
		if i.AgentUID == "" && i.TaskID == "" {
			key.name = i.AgentName
		}
		repeated := seen[key]
		seen[key] = true
		return repeated
	})
}
