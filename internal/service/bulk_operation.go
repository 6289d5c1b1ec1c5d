package service

import (
	"context"
	"maps"

	"fleet/internal/fleet"
)

// bulkOperation is an operation with its values. It has no rules of its own: it uses the same functions as the API's calls for one agent.
type bulkOperation struct {
	needed fleet.Access // of the caller to each agent
	// affectsTask means that the operation ends the agent's task or sends it something. Then the task must be the one in the plan.
	affectsTask bool
	// predict returns the operation's effect on the agent, for people. If there is none, effect is empty and unchanged says why. The
	// error says why the operation is not possible. predict is nil for an operation on tasks, and so is do.
	predict func(v *fleet.AgentView) (effect, unchanged string, err error)
	// do performs the operation, once for each request id.
	do func(ctx context.Context, ref, requestID string) (result bulkResult, err error)
}

// bulkResult is the result of the call for one item.
type bulkResult struct {
	message    string
	taskID     string // the task that the call has queued; empty if there is none
	unfinished bool   // the requested state is not reached yet
}

// bulkOperation returns the operation of the request, or INVALID_ARGUMENT if the request has no operation or values that are not valid
// for it.
func (s *Service) bulkOperation(ctx context.Context, p fleet.Principal, req fleet.BulkRequest) (bulkOperation, error) {
	switch req.Operation {
	case fleet.BulkStart:
		return s.desiredOperation(s.startChange(), "starts", s.StartAgent), nil
	case fleet.BulkStop:
		return s.desiredOperation(stopChange(), "stops", s.StopAgent), nil
	case fleet.BulkRestart:
		r := RestartAgentRequest{Role: req.Role, Update: req.Update}
		return s.desiredOperation(s.restartChange(r), "restarts", func(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
			r := r
			r.Agent, r.RequestID = ref, requestID
			return s.RestartAgent(ctx, r)
		}), nil
	case fleet.BulkDelete:
		return s.desiredOperation(s.deleteChange(req.KeepUnsaved), "is deleted with its workspace", func(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
			return s.DeleteAgent(ctx, ref, req.KeepUnsaved, requestID)
		}), nil
	case fleet.BulkMessage:
		return s.messageOperation(p, req), checkText(fleet.ReasonInvalidArgument, "text", "the message", req.Text)
	case fleet.BulkLabel:
		r := SetLabelsRequest{Labels: req.Labels, Remove: req.RemoveLabels}
		return s.labelOperation(r), r.validate()
	case fleet.BulkQueue:
		return s.queueOperation(p, req)
	case fleet.BulkMove:
		to, err := s.poolToMoveTo(ctx, p, req.Pool)
		if err != nil {
			return bulkOperation{}, asInvalid(err, "pool")
		}
		return s.moveOperation(to, req), nil
	case fleet.BulkStopTask:
		return bulkOperation{needed: fleet.AccessRun, affectsTask: true}, nil
	}
	return bulkOperation{}, fleet.InvalidField("operation", "operation is required: give start, stop, restart, delete, message, label, queue, move or stop_task")
}

// desiredOperation returns the operation that makes the change d of the desired state with the call. verb describes the
// operation for people.
func (s *Service) desiredOperation(d desiredChange, verb string, call func(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error)) bulkOperation {
	predict := func(v *fleet.AgentView) (effect, unchanged string, err error) {
		next := *v
		if err := d.apply(s, &next); err != nil {
			return "", "", err
		}
		switch {
		case v.Settled() && next.Desired == v.Desired && next.RestartsRequested == v.RestartsRequested:
			return "", "it is " + string(v.State) + " already", nil
		case v.Task != nil && next.Status() != fleet.StatusBusy:
			return verb + ", and ends its task", "", nil
		}
		return verb, "", nil
	}
	do := func(ctx context.Context, ref, requestID string) (bulkResult, error) {
		v, message, err := call(ctx, ref, requestID)
		if err != nil {
			return bulkResult{}, err
		}
		return bulkResult{message: message, unfinished: !v.Settled()}, nil
	}
	return bulkOperation{needed: fleet.AccessOwn, affectsTask: true, predict: predict, do: do}
}

func (s *Service) messageOperation(p fleet.Principal, req fleet.BulkRequest) bulkOperation {
	predict := func(v *fleet.AgentView) (string, string, error) {
		return "gets the message for its task", "", s.checkMessage(p, v)
	}
	do := func(ctx context.Context, ref, requestID string) (bulkResult, error) {
		_, message, err := s.SendMessage(ctx, ref, req.Text, requestID)
		return bulkResult{message: message}, err
	}
	return bulkOperation{needed: fleet.AccessRun, affectsTask: true, predict: predict, do: do}
}

func (s *Service) labelOperation(r SetLabelsRequest) bulkOperation {
	predict := func(v *fleet.AgentView) (string, string, error) {
		after, err := r.apply(v.Labels)
		if maps.Equal(after, v.Labels) {
			return "", "it has these labels already", err
		}
		return "has " + labelsText(after), "", err
	}
	do := func(ctx context.Context, ref, requestID string) (bulkResult, error) {
		r := r
		r.Agent, r.RequestID = ref, requestID
		_, labels, err := s.SetLabels(ctx, r)
		return bulkResult{message: "It has " + labelsText(labels)}, err
	}
	return bulkOperation{needed: fleet.AccessOwn, predict: predict, do: do}
}

func (s *Service) queueOperation(p fleet.Principal, req fleet.BulkRequest) (bulkOperation, error) {
	request := func(ref, requestID string) QueueTaskRequest {
		r := QueueTaskRequest{Entry: fleet.QueueEntry{Priority: req.Priority}}
		r.Agent, r.Description, r.Timeout, r.Labels, r.RequestID = ref, req.Text, req.Timeout, req.Labels, requestID
		r.Options.MaxCostUSD = req.MaxCostUSD
		return r
	}
	err := checkText(fleet.ReasonTaskRequired, "text", "the task's description", req.Text)
	if err == nil {
		err = s.checkQueueRequest(request("any", ""))
	}
	predict := func(v *fleet.AgentView) (string, string, error) {
		effect := "gets the task"
		if v.Status() != fleet.StatusIdle {
			effect = "gets the task when it is idle"
		}
		return effect, "", s.checkSupported(p, &v.Agent, request(v.Name, "").StartTaskRequest)
	}
	do := func(ctx context.Context, ref, requestID string) (bulkResult, error) {
		t, err := s.QueueTask(ctx, request(ref, requestID))
		if err != nil {
			return bulkResult{}, err
		}
		return bulkResult{message: "Task queued successfully", taskID: t.ID}, nil
	}
	return bulkOperation{needed: fleet.AccessRun, predict: predict, do: do}, err
}

func (s *Service) moveOperation(to *fleet.Pool, req fleet.BulkRequest) bulkOperation {
	moved := 0 // agents that the plan moves to the pool
	predict := func(v *fleet.AgentView) (string, string, error) {
		a := &v.Agent
		if err := checkMovable(a, to); err != nil {
			return "", "", err
		}
		switch {
		case inPool(a, to) && to == nil:
			return "", "it is in no pool", nil
		case inPool(a, to):
			return "", "it is in the pool " + to.Name + " already", nil
		case to == nil:
			return "leaves the pool " + a.Pool, "", nil
		}
		if err := checkPoolRoom(to, s.countAgents(to)+moved); err != nil {
			return "", "", err
		}
		moved++
		return "moves to the pool " + to.Name, "", nil
	}
	do := func(ctx context.Context, ref, requestID string) (bulkResult, error) {
		_, message, err := s.MoveAgent(ctx, ref, req.Pool, requestID)
		return bulkResult{message: message}, err
	}
	return bulkOperation{needed: fleet.AccessOwn, predict: predict, do: do}
}
