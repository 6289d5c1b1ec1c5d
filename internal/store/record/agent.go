package record

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// agentColumns are the columns that reads and writes of agents share.
const agentColumns = `traceparent, name, owner, project, role, spec, workspace_id, location, metadata, state, state_reason,
	desired, restart, restarted, attempts, retry_at, created_at, updated_at, deleted_at, toolset, place, one_task,
	refused, refused_field, conversed, shares, parameters, host, next_start, rules, session_id, labels, pool, max_idle, conversation`

// agentWriteColumns are the columns of agents that a write sets. agentArgs returns their values in the same order.
const agentWriteColumns = agentColumns + `, name_key`

// SelectAgents is the beginning of a query whose rows ScanAgent reads.
const SelectAgents = `SELECT uid, ` + agentColumns + `, revision, config FROM agents LEFT JOIN agent_configs ON agent_uid = uid `

// agentArgs returns the values of agentWriteColumns.
func agentArgs(a *fleet.Agent) ([]any, error) {
	var metadata, shares, parameters, host, next, rules *string // pointers, because a store may escape strings, which would change JSON
	var err error
	if a.Metadata != nil {
		metadata, err = marshalText(a.Metadata)
	}
	if err == nil && len(a.Shares) > 0 {
		shares, err = marshalText(a.Shares)
	}
	if err == nil && len(a.Parameters) > 0 {
		parameters, err = marshalText(a.Parameters)
	}
	if err == nil && !a.Host.IsZero() {
		host, err = marshalText(a.Host)
	}
	if err == nil && a.Next != (fleet.NextStart{}) {
		next, err = marshalText(a.Next)
	}
	if err == nil && len(a.Rules) > 0 {
		rules, err = marshalText(a.Rules)
	}
	return []any{
		a.Trace, a.Name, a.Owner, a.Project, a.Role, a.Spec, a.WorkspaceID, a.Location, metadata,
		string(a.State), a.StateReason, string(a.Desired), a.RestartsRequested, a.RestartsDone, a.Attempts, NullTime(a.RetryAt),
		a.CreatedAt, a.UpdatedAt, NullTime(a.DeletedAt), string(a.Toolset), a.Place, a.OneTask,
		string(a.RefusalReason), a.RefusalField, a.HasConversation, shares, parameters, host, next, rules, a.SessionID, labelsArg(a.Labels), a.Pool, int64(a.MaxIdle), a.Conversation, NameKey(a.Name),
	}, err
}

func marshalText(v any) (*string, error) {
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
		jsonColumn{&a.Metadata}, (*string)(&a.State), &a.StateReason, (*string)(&a.Desired), &a.RestartsRequested, &a.RestartsDone, &a.Attempts,
		(*TimeColumn)(&a.RetryAt), (*TimeColumn)(&a.CreatedAt), (*TimeColumn)(&a.UpdatedAt), (*TimeColumn)(&a.DeletedAt), (*string)(&a.Toolset), &a.Place, &a.OneTask,
		(*string)(&a.RefusalReason), &a.RefusalField, &a.HasConversation, jsonColumn{&a.Shares}, jsonColumn{&a.Parameters}, jsonColumn{&a.Host}, jsonColumn{&a.Next}, jsonColumn{&a.Rules}, &a.SessionID, jsonColumn{&a.Labels}, &a.Pool, (*int64)(&a.MaxIdle), &a.Conversation,
		&a.Revision, jsonColumn{&a.Config})
}

// JoinTasks sets the task of each view to the task of its agent, or to nil if tasks has none, and returns the views. It ignores
// tasks of other agents.
func JoinTasks(views []*fleet.AgentView, tasks []*fleet.Task) []*fleet.AgentView {
	taskByAgent := make(map[string]*fleet.Task, len(tasks))
	for _, t := range tasks {
		taskByAgent[t.AgentUID] = t
	}
	for _, v := range views {
		v.Task = taskByAgent[v.UID]
	}
	return views
}
