package sqlite

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// uidsIn passes the uids as one JSON list, so that the statement is the same for any number of them.
const uidsIn = `IN (SELECT value FROM json_each(?))`

// ofProjects selects what belongs to agents of some projects. The list of projects is passed twice.
const ofProjects = `agent_uid IN (SELECT uid FROM agents WHERE project <> ''
	AND (project IN (SELECT value FROM json_each(?)) OR place || '/' || project IN (SELECT value FROM json_each(?))))`

func (t *readTx) AgentViews(uids []string) ([]*fleet.AgentView, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	views, err := all(t, scanView, selectAgents+`WHERE uid `+uidsIn+byName, list(uids))
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, scanTask, selectTasks+`WHERE agent_uid `+uidsIn+` AND `+active, list(uids))
	return join(views, tasks), err
}

func (t *readTx) LiveAgentViews() ([]*fleet.AgentView, error) {
	views, err := all(t, scanView, selectAgents+`WHERE deleted_at IS NULL`+byName)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, scanTask, selectTasks+`WHERE `+active)
	return join(views, tasks), err
}

// list returns the texts as one JSON list.
func list(texts []string) string {
	b, _ := json.Marshal(texts) // a list of texts always has a form in JSON
	return string(b)
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
