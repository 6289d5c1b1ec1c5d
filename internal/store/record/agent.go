package record

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// agentColumns are the columns of agents that are read.
const agentColumns = `traceparent, name, owner, project, role, spec, workspace_id, location, metadata, state, state_reason,
	desired, restart, restarted, attempts, retry_at, created_at, updated_at, deleted_at, toolset, place, one_task,
	refused, refused_field, conversed, shares, parameters, host, next_start, rules, session_id, labels, pool, max_idle`

// writtenColumns are the columns of agents that a write sets. agentArgs returns their values in the same order.
const writtenColumns = agentColumns + `, name_key`

// SelectAgents is the beginning of a query whose rows ScanAgent reads.
const SelectAgents = `SELECT uid, ` + agentColumns + `, revision, config FROM agents LEFT JOIN agent_configs ON agent_uid = uid `

// agentArgs returns the values of writtenColumns.
func agentArgs(a *fleet.Agent) ([]any, error) {
	var metadata, shares, parameters, host, next, rules *string // pointers, because a store may escape strings, and must not change JSON
	var err error
	if a.Metadata != nil {
		metadata, err = jsonOf(a.Metadata)
	}
	if err == nil && len(a.Shares) > 0 {
		shares, err = jsonOf(a.Shares)
	}
	if err == nil && len(a.Parameters) > 0 {
		parameters, err = jsonOf(a.Parameters)
	}
	if err == nil && !a.Host.IsZero() {
		host, err = jsonOf(a.Host)
	}
	if err == nil && a.Next != (fleet.NextStart{}) {
		next, err = jsonOf(a.Next)
	}
	if err == nil && len(a.Rules) > 0 {
		rules, err = jsonOf(a.Rules)
	}
	return []any{
		a.Trace, a.Name, a.Owner, a.Project, a.Role, a.Spec, a.WorkspaceID, a.Location, metadata,
		string(a.State), a.StateReason, string(a.Desired), a.Restart, a.Restarted, a.Attempts, Maybe(a.RetryAt),
		a.CreatedAt, a.UpdatedAt, Maybe(a.DeletedAt), string(a.Toolset), a.Place, a.OneTask,
		string(a.Refused), a.RefusedField, a.Conversed, shares, parameters, host, next, rules, a.SessionID, labelsArg(a.Labels), a.Pool, int64(a.MaxIdle), Key(a.Name),
	}, err
}

func jsonOf(v any) (*string, error) {
	b, err := json.Marshal(v)
	return new(string(b)), err
}

// ScanAgent returns the agent of a row of SelectAgents.
func ScanAgent(row Scanner) (*fleet.Agent, error) {
	a := &fleet.Agent{}
	return a, scanAgent(row, a)
}

// ScanView returns the agent of a row of SelectAgents as a view without a task.
func ScanView(row Scanner) (*fleet.AgentView, error) {
	v := &fleet.AgentView{}
	return v, scanAgent(row, &v.Agent)
}

func scanAgent(row Scanner, a *fleet.Agent) error {
	return row.Scan(&a.UID, &a.Trace, &a.Name, &a.Owner, &a.Project, &a.Role, &a.Spec, &a.WorkspaceID, &a.Location,
		jsonInto{&a.Metadata}, (*string)(&a.State), &a.StateReason, (*string)(&a.Desired), &a.Restart, &a.Restarted, &a.Attempts,
		(*Time)(&a.RetryAt), (*Time)(&a.CreatedAt), (*Time)(&a.UpdatedAt), (*Time)(&a.DeletedAt), (*string)(&a.Toolset), &a.Place, &a.OneTask,
		(*string)(&a.Refused), &a.RefusedField, &a.Conversed, jsonInto{&a.Shares}, jsonInto{&a.Parameters}, jsonInto{&a.Host}, jsonInto{&a.Next}, jsonInto{&a.Rules}, &a.SessionID, jsonInto{&a.Labels}, &a.Pool, (*int64)(&a.MaxIdle),
		&a.Revision, jsonInto{&a.Config})
}

// Join sets the task of each view to the task of its agent, and returns the views. It ignores tasks of other agents.
func Join(views []*fleet.AgentView, tasks []*fleet.Task) []*fleet.AgentView {
	of := make(map[string]*fleet.Task, len(tasks))
	for _, t := range tasks {
		of[t.AgentUID] = t
	}
	for _, v := range views {
		v.Task = of[v.UID]
	}
	return views
}
