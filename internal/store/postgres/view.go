package postgres

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectAgent       = record.SelectAgents + `WHERE uid = $1`
	selectAgentsByUID = record.SelectAgents + `WHERE uid = ANY($1)` + record.ByName
	selectLiveAgents  = record.SelectAgents + `WHERE deleted_at IS NULL` + record.ByName
)

func (t *baseTx) AgentViews(f fleet.AgentViewFilter) ([]*fleet.AgentView, error) {
	switch {
	case f.Live:
		return t.views(query{text: selectLiveAgents}, query{text: record.SelectTasks + `WHERE ` + record.RunningCondition})
	case len(f.UIDs) == 0:
		return nil, t.err
	}
	t.lock(record.LockAgent, f.UIDs...)
	agentQuery, taskQuery, arg := selectAgentsByUID, selectRunningTasks, any(f.UIDs)
	if len(f.UIDs) == 1 { // the plan for one uid can be reused, but a query for a list is planned each time
		agentQuery, taskQuery, arg = selectAgent, selectRunningTask, f.UIDs[0]
	}
	return t.views(query{text: agentQuery, args: []any{arg}}, query{text: taskQuery, args: []any{arg}})
}

// views runs both queries and returns the agents with their running tasks.
func (t *baseTx) views(agentQuery, taskQuery query) ([]*fleet.AgentView, error) {
	var views []*fleet.AgentView
	var tasks []*fleet.Task
	agentQuery.eachRow, taskQuery.eachRow = appendTo(&views, record.ScanView), appendTo(&tasks, record.ScanTask)
	if err := t.queryTogether(agentQuery, taskQuery); err != nil {
		return nil, t.fail(err)
	}
	return record.JoinTasks(views, tasks), nil
}
