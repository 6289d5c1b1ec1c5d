package postgres

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

func (t *readTx) AgentViews(uids []string) ([]*fleet.AgentView, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	t.lock(lockAgent, uids...)
	agents, active, arg := someAgents, activeTasks, any(uids)
	if len(uids) == 1 { // the plan for a list is made anew for each
		agents, active, arg = oneAgent, activeTask, uids[0]
	}
	views, err := all(t, record.ScanView, agents, arg)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, record.ScanTask, active, arg)
	return record.Join(views, tasks), err
}

func (t *readTx) LiveAgentViews() ([]*fleet.AgentView, error) {
	views, err := all(t, record.ScanView, liveAgents)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, record.ScanTask, record.SelectTasks+`WHERE `+record.Active)
	return record.Join(views, tasks), err
}
