package postgres

import "fleet/internal/fleet"

func (t *readTx) AgentViews(uids []string) ([]*fleet.AgentView, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	t.lock(lockAgent, uids...)
	views, err := all(t, scanView, someAgents, uids)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, scanTask, selectTasks+`WHERE agent_uid = ANY($1) AND `+active, uids)
	return join(views, tasks), err
}

func (t *readTx) LiveAgentViews() ([]*fleet.AgentView, error) {
	views, err := all(t, scanView, liveAgents)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, scanTask, selectTasks+`WHERE `+active)
	return join(views, tasks), err
}

func scanView(row scanner) (*fleet.AgentView, error) {
	v := &fleet.AgentView{}
	return v, scanAgentInto(row, &v.Agent)
}

// join adds the tasks to the views. It ignores tasks of other agents.
func join(views []*fleet.AgentView, tasks []*fleet.Task) []*fleet.AgentView {
	of := make(map[string]*fleet.Task, len(tasks))
	for _, t := range tasks {
		of[t.AgentUID] = t
	}
	for _, v := range views {
		v.Task = of[v.UID]
	}
	return views
}
