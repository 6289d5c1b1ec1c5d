package sqlite

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

func (t *baseTx) AgentViews(f fleet.AgentViewFilter) ([]*fleet.AgentView, error) {
	switch {
	case f.Live:
		return t.views(`deleted_at IS NULL`, `true`)
	case len(f.UIDs) == 0:
		return nil, t.err
	case len(f.UIDs) == 1:
		return t.views(`uid = ?`, `agent_uid = ?`, f.UIDs[0])
	default:
		return t.views(`uid `+inList, `agent_uid `+inList, jsonList(f.UIDs))
	}
}

// views returns the agents and their running tasks. args are the arguments of each of the two conditions.
func (t *baseTx) views(agentCondition, taskCondition string, args ...any) ([]*fleet.AgentView, error) {
	views, err := record.QueryAll(t, record.ScanView, record.SelectAgents+`WHERE `+agentCondition+record.ByName, args...)
	if err != nil {
		return nil, err
	}
	tasks, err := record.QueryAll(t, record.ScanTask, record.SelectTasks+`WHERE `+taskCondition+` AND `+record.RunningCondition, args...)
	return record.JoinTasks(views, tasks), err
}
