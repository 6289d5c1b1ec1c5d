package sqlite

import (
	"encoding/json"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	byName       = ` ORDER BY name_key, owner`
	newestAgent  = `WHERE name_key = ? AND toolset = '' AND (? = '' OR owner = ?) ORDER BY created_at DESC, n DESC LIMIT 1`
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

func (t *readTx) Agents(f fleet.AgentFilter) ([]*fleet.Agent, error) {
	name := record.Key(f.Name)
	switch {
	case f.Shared:
		return t.agents(`WHERE shares IS NOT NULL ORDER BY uid`)
	case f.WorkspaceID != "":
		return t.agents(`WHERE workspace_id <> '' AND workspace_id = ? AND place = ? ORDER BY created_at DESC, n DESC LIMIT 1`, f.WorkspaceID, f.Place)
	case f.Name == "":
		return nil, t.err
	case f.Newest:
		return t.agents(newestAgent, name, f.Owner, f.Owner)
	case f.Owner != "":
		return t.agents(`WHERE name_key = ? AND owner = ? AND deleted_at IS NULL`+byName, name, f.Owner)
	default:
		return t.agents(`WHERE name_key = ? AND deleted_at IS NULL`+byName, name)
	}
}

func (t *readTx) agents(where string, args ...any) ([]*fleet.Agent, error) {
	return all(t, record.ScanAgent, record.SelectAgents+where, args...)
}

func (t *tx) insertAgent(a *fleet.Agent) error {
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
func (t *tx) updateAgent(a *fleet.Agent) error {
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
