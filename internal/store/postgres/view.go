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
	views, err := all(t, record.ScanView, someAgents, uids)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, record.ScanTask, record.SelectTasks+`WHERE agent_uid = ANY($1) AND `+record.Active, uids)
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
