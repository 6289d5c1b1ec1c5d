package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	// maxBulkTries is how often an item is tried at most, if it fails for a temporary reason.
	maxBulkTries = 3
	// maxBulkWait is the longest time that a caller can choose for a call.
	maxBulkWait = 50 * time.Second
	// bulkRetryDelay is how long a call waits before it tries pending items again.
	bulkRetryDelay = time.Second
	// bulkStoreTimeout limits how long storing the results may take, also if the call was cancelled.
	bulkStoreTimeout = 10 * time.Second
)

// RunBulk executes the items of a plan that are not done yet. It works at most for limit, or for state.Config.CreateWait if limit is 0,
// and returns the plan with the results so far. Several calls, also on several servers, may run the same plan at the same time, and a
// call may be killed: the request ids of the items come from the plan, so each item is executed once. A call that is cancelled begins no
// more items.
//
// A call uses at most half of the server's workers (see state.Config.Workers), so that other callers need not wait for it.
func (s *Service) RunBulk(ctx context.Context, id string, limit time.Duration) (*fleet.BulkPlan, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case id == "":
		return nil, fleet.InvalidField("plan_id", "plan_id is required").Next("{plan_bulk} makes a plan")
	case limit < 0 || limit > maxBulkWait:
		return nil, fleet.InvalidField("wait_seconds", "wait_seconds is %d: give 0 to %d", int64(limit.Seconds()), int64(maxBulkWait.Seconds()))
	}
	plan, err := s.beginBulk(ctx, p, id)
	if err != nil || plan.Count(fleet.BulkPending) == 0 {
		return plan, err
	}
	op, err := s.bulkOperation(ctx, p, plan.Request)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = s.cfg.CreateWait
	}
	workCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := &bulkRun{s: s, plan: plan, op: op, concurrency: max(1, s.cfg.Workers/2)}
	r.runAll(workCtx)
	storeCtx, cancelStoring := context.WithTimeout(context.WithoutCancel(ctx), bulkStoreTimeout)
	defer cancelStoring()
	if plan, err = s.storeResults(storeCtx, p, plan); err == nil {
		err = ctx.Err()
	}
	return plan, err
}

// beginBulk returns the plan, and records that its run has begun.
func (s *Service) beginBulk(ctx context.Context, p fleet.Principal, id string) (plan *fleet.BulkPlan, err error) {
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if plan, err = readBulkPlan(tx, p, id); err != nil || plan.Begun {
			return err
		}
		plan.Begun = true
		return fleet.PutResource(tx, fleet.BulkKind, plan.ID, plan)
	})
	return plan, err
}

// storeResults stores the results, and returns the plan with all results, also those of other calls. If another call has
// stored the result of an item meanwhile, that result stays.
func (s *Service) storeResults(ctx context.Context, p fleet.Principal, plan *fleet.BulkPlan) (stored *fleet.BulkPlan, err error) {
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if stored, err = readBulkPlan(tx, p, plan.ID); err != nil {
			return err
		}
		for i, item := range plan.Items {
			if stored.Items[i].Outcome == fleet.BulkPending {
				stored.Items[i] = item
			}
		}
		return fleet.PutResource(tx, fleet.BulkKind, plan.ID, stored)
	})
	return stored, err
}

// bulkRun is a call of RunBulk.
type bulkRun struct {
	s           *Service
	plan        *fleet.BulkPlan
	op          bulkOperation
	concurrency int // how many items are executed at the same time
}

// runAll executes the pending items, and retries items that failed for a temporary reason. It returns when no item is left, or
// ctx has ended.
func (r *bulkRun) runAll(ctx context.Context) {
	for {
		r.runPending(ctx)
		if r.plan.Count(fleet.BulkPending) == 0 {
			return
		}
		fleet.ReleaseSlot(ctx)
		retry := time.NewTimer(bulkRetryDelay)
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return
		}
	}
}

// runPending tries each pending item once. It begins no more items when ctx has ended.
func (r *bulkRun) runPending(ctx context.Context) {
	next := make(chan *fleet.BulkItem)
	var workers sync.WaitGroup
	for range r.concurrency {
		workers.Go(func() {
			for item := range next {
				r.run(ctx, item)
			}
		})
	}
	for i := range r.plan.Items {
		item := &r.plan.Items[i]
		if item.Outcome != fleet.BulkPending {
			continue
		}
		select {
		case next <- item:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
}

// run executes the item, and sets its result. The item stays pending if its effect is not complete yet, if another try may succeed, or
// if ctx ends meanwhile. The next try repeats the request id, so it gets the result of this one.
func (r *bulkRun) run(ctx context.Context, item *fleet.BulkItem) {
	if ctx.Err() != nil {
		return
	}
	object := item.AgentUID
	if r.plan.Request.Operation == fleet.BulkStopTask {
		object = item.TaskID
	}
	requestID := "bulk/" + r.plan.ID + "/" + object
	ctx, entry := r.withAuditEntry(ctx, item, requestID)
	var result bulkResult
	var err error
	if r.plan.Request.Operation == fleet.BulkStopTask {
		result, err = r.s.stopPlannedTask(ctx, item.TaskID, requestID)
	} else {
		planned := &plannedAgent{uid: item.AgentUID, name: item.AgentName, taskID: item.TaskID, anyTask: !r.op.affectsTask}
		result, err = r.op.do(withPlannedAgent(ctx, planned), item.AgentUID, requestID)
	}
	r.writeAuditEntry(entry, err)
	switch {
	case ctx.Err() != nil || err == nil && result.unfinished:
	case err == nil:
		item.Outcome, item.Message = fleet.BulkDone, result.message
		if result.taskID != "" {
			item.TaskID = result.taskID
		}
	case mayRetry(err) && item.Tries < maxBulkTries-1:
		item.Tries++
	default:
		item.Outcome, item.Reason, item.Message = fleet.BulkFailed, fleet.ReasonOf(err), fleet.PublicMessage(err)
		if item.Reason == fleet.ReasonInternal {
			r.s.log.ErrorContext(ctx, "an item of a bulk operation failed", slog.String("plan", r.plan.ID), slog.String("agent", item.AgentName), slog.Any("error", err))
		}
	}
}

// mayRetry reports whether another try may succeed, because the cause of the error may pass, or because the call may have been executed
// in spite of the error.
func mayRetry(err error) bool {
	e, ok := errors.AsType[*fleet.Error](err)
	return !ok || e.Code == fleet.Unavailable && e.Reason != fleet.ReasonProvisioningFailed
}

// stopPlannedTask stops the task of an item.
func (s *Service) stopPlannedTask(ctx context.Context, id, requestID string) (bulkResult, error) {
	t, message, err := s.StopTaskByID(ctx, id, requestID)
	if err != nil {
		return bulkResult{}, err
	}
	return bulkResult{message: message, unfinished: !t.Status.Ended()}, nil
}

// auditMethods maps each operation to the API method in the audit entries of its items.
var auditMethods = map[fleet.BulkOperation]string{
	fleet.BulkStart: "StartAgent", fleet.BulkStop: "StopAgent", fleet.BulkRestart: "RestartAgent", fleet.BulkDelete: "DeleteAgent",
	fleet.BulkMessage: "SendTaskMessage", fleet.BulkLabel: "SetLabels", fleet.BulkQueue: "QueueTask", fleet.BulkMove: "MoveAgent", fleet.BulkStopTask: "StopTask",
}

// withAuditEntry returns a context in which the item has an entry of its own in the audit log, like a single call. The entry is nil if
// the call is not audited.
func (r *bulkRun) withAuditEntry(ctx context.Context, item *fleet.BulkItem, requestID string) (context.Context, *fleet.PendingAuditEntry) {
	call := fleet.AuditFrom(ctx)
	if call == nil {
		return ctx, nil
	}
	e := call.Change(func(*fleet.AuditEntry) {})
	e.ID, e.Time, e.Method, e.RequestID = 0, r.s.audit.Now(), auditMethods[r.plan.Request.Operation], requestID
	e.Target, e.AgentName, e.Owner = item.AgentName, item.AgentName, item.Owner
	if item.AgentName == "" {
		e.Target = item.TaskID
	}
	entry := fleet.NewPendingAuditEntry(e)
	return fleet.WithAudit(ctx, entry), entry
}

// writeAuditEntry writes the outcome of the item to its entry. An item that has changed nothing has an entry only if it has failed.
func (r *bulkRun) writeAuditEntry(entry *fleet.PendingAuditEntry, err error) {
	if entry == nil {
		return
	}
	e := entry.Change(func(e *fleet.AuditEntry) {
		if e.Outcome = fleet.OutcomeOK; err != nil {
			e.Outcome = string(fleet.ReasonOf(err))
		}
	})
	cancelled := slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded}, func(target error) bool { return errors.Is(err, target) })
	if e.ID != 0 || err != nil && !cancelled {
		r.s.audit.Add(e)
	}
}
