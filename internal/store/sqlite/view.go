package sqlite

import (
	"encoding/json"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// uidsIn passes the uids as one JSON list, so that the statement is the same for any number of them.
const uidsIn = `IN (SELECT value FROM json_each(?))`

// ofProjects selects rows that belong to agents of some projects. The query needs the list of projects twice.
const ofProjects = `agent_uid IN (SELECT uid FROM agents WHERE project <> ''
	AND (project IN (SELECT value FROM json_each(?)) OR place || '/' || project IN (SELECT value FROM json_each(?))))`

func (t *readTx) AgentViews(uids []string) ([]*fleet.AgentView, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	which, arg := uidsIn, list(uids)
	if len(uids) == 1 {
		which, arg = `= ?`, uids[0]
	}
	views, err := all(t, record.ScanView, record.SelectAgents+`WHERE uid `+which+byName, arg)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, record.ScanTask, record.SelectTasks+`WHERE agent_uid `+which+` AND `+record.Active, arg)
	return record.Join(views, tasks), err
}

func (t *readTx) LiveAgentViews() ([]*fleet.AgentView, error) {
	views, err := all(t, record.ScanView, record.SelectAgents+`WHERE deleted_at IS NULL`+byName)
	if err != nil {
		return nil, err
	}
	tasks, err := all(t, record.ScanTask, record.SelectTasks+`WHERE `+record.Active)
	return record.Join(views, tasks), err
}

// list returns the texts as one JSON list.
func list(texts []string) string {
	b, _ := json.Marshal(texts) // a list of texts can always be encoded
	return string(b)
}
