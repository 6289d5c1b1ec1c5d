package service

import (
	"context"
	"maps"

	"fleet/internal/fleet"
)

// SetLabelsRequest says which labels of an agent or of a task change.
type SetLabelsRequest struct {
	Agent, TaskID string // one of them
	Labels        fleet.Labels
	Remove        []string // keys
	RequestID     string   `json:"-"`
}

// SetLabels adds and changes labels of an agent or of a task, which may have ended, and removes others. It returns the name of the
// agent and all labels of the agent or the task. The labels of an agent become those of the tasks that it starts later.
func (s *Service) SetLabels(ctx context.Context, r SetLabelsRequest) (agent string, labels fleet.Labels, err error) {
	c := Call{Method: "SetLabels", RequestID: r.RequestID, Body: r}
	if err = r.validate(); (r.Agent == "") == (r.TaskID == "") {
		err = fleet.InvalidField("agent_name", "give either agent_name or task_id")
	}
	if err != nil {
		return "", nil, err
	}
	if r.TaskID != "" {
		task, err := s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) { return s.labelTask(tx, p, r) })
		if err != nil {
			return "", nil, err
		}
		return task.AgentName, task.Labels, nil
	}
	v, _, err := s.agent(ctx, r.Agent, fleet.AccessOwn)
	c.Refusal = err
	v, err = s.changeAgent(ctx, c, v, fleet.AccessOwn, func(_ fleet.Tx, a *fleet.Agent) (e *fleet.Event, err error) {
		before := a.Labels
		if a.Labels, err = r.apply(before); err != nil || maps.Equal(before, a.Labels) {
			return nil, err
		}
		return a.Event(fleet.EventAgentChanged, s.now(), labelsText(a.Labels)), nil
	})
	if err != nil {
		return "", nil, err
	}
	return v.Name, v.Labels, nil
}

// validate returns INVALID_ARGUMENT if the request changes no label, or has labels that neither an agent nor a task can have.
func (r SetLabelsRequest) validate() error {
	switch {
	case len(r.Labels)+len(r.Remove) == 0:
		return fleet.InvalidField("labels", "labels is required: give the labels to set, or in remove the keys to remove")
	case len(r.Remove) > fleet.MaxLabels:
		return fleet.InvalidField("remove", "remove has %d keys: give at most %d", len(r.Remove), fleet.MaxLabels)
	}
	return r.Labels.Validate("labels")
}

// apply returns the labels after the change. It does not change l.
func (r SetLabelsRequest) apply(l fleet.Labels) (fleet.Labels, error) {
	l = l.With(r.Labels, r.Remove...)
	return l, l.Validate("labels")
}

func (s *Service) labelTask(tx fleet.Tx, p fleet.Principal, r SetLabelsRequest) (*fleet.Task, error) {
	t, err := s.task(tx, p, r.TaskID, fleet.AccessRun)
	if err != nil {
		return nil, err
	}
	before := t.Labels
	if t.Labels, err = r.apply(before); err != nil || maps.Equal(before, t.Labels) {
		return t, err
	}
	if err := tx.Put(t.ID, t.Labels); err != nil {
		return nil, err
	}
	return t, tx.Append(t.Event(fleet.EventTaskLabelled, s.now(), labelsText(t.Labels)))
}

// labelsText lists the labels for people.
func labelsText(l fleet.Labels) string {
	if len(l) == 0 {
		return "no labels"
	}
	return "labels: " + l.String()
}
