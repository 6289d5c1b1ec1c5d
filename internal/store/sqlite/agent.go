package sqlite

import (
	"encoding/json"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	byName       = ` ORDER BY name_key, owner`
	insertConfig = `INSERT INTO agent_configs (agent_uid, config) VALUES (?, ?)`
)

var (
	insertAgent = `INSERT INTO agents (` + record.AgentColumns + `, uid, revision) VALUES (` + record.Marks(record.AgentColumns) + `, ?, 1)`
	updateAgent = `UPDATE agents SET (` + record.AgentColumns + `) = (` + record.Marks(record.AgentColumns) + `), revision = revision + 1
		WHERE uid = ? RETURNING revision`
)

func (t *readTx) Agent(uid string) (*fleet.Agent, error) {
	return first(t, record.ScanAgent, record.SelectAgents+`WHERE uid = ?`, uid)
}

func (t *readTx) AgentsByName(name, owner string) ([]*fleet.Agent, error) {
	if owner == "" {
		return all(t, record.ScanAgent, record.SelectAgents+`WHERE name_key = ? AND deleted_at IS NULL`+byName, record.Key(name))
	}
	return all(t, record.ScanAgent, record.SelectAgents+`WHERE name_key = ? AND owner = ? AND deleted_at IS NULL`+byName, record.Key(name), owner)
}

func (t *readTx) AgentByWorkspace(place, workspaceID string) (*fleet.Agent, error) {
	return first(t, record.ScanAgent, record.SelectAgents+`WHERE workspace_id <> '' AND workspace_id = ? AND place = ? ORDER BY created_at DESC, n DESC LIMIT 1`,
		workspaceID, place)
}

func (t *readTx) Agents() ([]*fleet.Agent, error) {
	return all(t, record.ScanAgent, record.SelectAgents+`WHERE deleted_at IS NULL`+byName)
}

func (t *readTx) SharedAgents() ([]*fleet.Agent, error) {
	return all(t, record.ScanAgent, record.SelectAgents+`WHERE shares IS NOT NULL ORDER BY uid`)
}

func (t *tx) InsertAgent(a *fleet.Agent) error {
	if err := t.grow(); err != nil {
		return err
	}
	args, err := record.AgentArgs(a)
	if err == nil {
		_, err = t.exec(insertAgent, append(args, a.UID)...)
	}
	if err == nil && a.Config != nil {
		err = t.insertConfig(a)
	}
	if err != nil {
		return t.failed(agentError("add", a, err))
	}
	a.Revision = 1
	return nil
}

func (t *tx) insertConfig(a *fleet.Agent) error {
	b, err := json.Marshal(a.Config)
	if err == nil {
		_, err = t.exec(insertConfig, a.UID, string(b))
	}
	return err
}

// UpdateAgent writes the agent without its configuration, which never changes.
func (t *tx) UpdateAgent(a *fleet.Agent) error {
	args, err := record.AgentArgs(a)
	if err != nil {
		return t.failed(agentError("write", a, err))
	}
	revision, err := t.revise(updateAgent, append(args, a.UID)...)
	if err != nil {
		return t.failed(agentError("write", a, err))
	}
	a.Revision = revision
	return nil
}

func agentError(act string, a *fleet.Agent, err error) error {
	return record.AgentError(act, a, err, taken(err, "agents.name_key"))
}
