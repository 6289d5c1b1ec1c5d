package record

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// ByName is the end of a query that orders agents by name and owner.
const ByName = ` ORDER BY name_key, owner`

// NewestAgent is the end of a query for the newest agent with a name. Its arguments are the name's key, and twice the owner;
// the owner "" means any owner.
const NewestAgent = `WHERE name_key = ? AND toolset = '' AND (? = '' OR owner = ?) ORDER BY created_at DESC, n DESC LIMIT 1`

const insertConfig = `INSERT INTO agent_configs (agent_uid, config) VALUES (?, ?)`

var (
	insertAgent = `INSERT INTO agents (` + agentWriteColumns + `, uid, revision) VALUES (` + Placeholders(agentWriteColumns) + `, ?, 1)`
	updateAgent = `UPDATE agents SET (` + agentWriteColumns + `) = (` + Placeholders(agentWriteColumns) + `), revision = revision + 1
		WHERE uid = ? RETURNING revision`
)

// Agent returns the agent, see fleet.ReadTx.
func (t ReadTx) Agent(uid string) (*fleet.Agent, error) {
	t.DB.Lock(LockAgent, uid)
	return QueryFirst(t.DB, ScanAgent, SelectAgents+`WHERE uid = ?`, uid)
}

// Agents returns the matching agents, see fleet.ReadTx.
func (t ReadTx) Agents(f fleet.AgentFilter) ([]*fleet.Agent, error) {
	name := NameKey(f.Name)
	switch {
	case f.Shared:
		return QueryAll(t.DB, ScanAgent, SelectAgents+`WHERE shares IS NOT NULL ORDER BY uid`)
	case f.WorkspaceID != "":
		t.DB.Lock(LockWorkspace, joinKey(f.Place, f.WorkspaceID))
		return t.agents(`WHERE workspace_id <> '' AND workspace_id = ? AND place = ? ORDER BY created_at DESC, n DESC LIMIT 1`, f.WorkspaceID, f.Place)
	case f.Name == "":
		return nil, nil
	}
	t.DB.Lock(LockName, name)
	switch {
	case f.Newest:
		return t.agents(NewestAgent, name, f.Owner, f.Owner)
	case f.Owner != "":
		return t.agents(`WHERE name_key = ? AND owner = ? AND deleted_at IS NULL`+ByName, name, f.Owner)
	default:
		return t.agents(`WHERE name_key = ? AND deleted_at IS NULL`+ByName, name)
	}
}

// agents returns the agents that the end of a query selects, and locks them.
func (t ReadTx) agents(where string, args ...any) ([]*fleet.Agent, error) {
	return ReadLocked(t.DB, LockAgent, func(a *fleet.Agent) string { return a.UID }, func() ([]*fleet.Agent, error) {
		return QueryAll(t.DB, ScanAgent, SelectAgents+where, args...)
	})
}

func (t Tx) insertAgent(a *fleet.Agent) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	t.DB.Lock(LockAgent, a.UID)
	t.DB.Lock(LockName, NameKey(a.Name))
	t.lockWorkspace(a)
	t.DB.LockShared(LockOwner, a.Owner)
	if err := t.writeAgent("add", a, func(explain func(error) error, args []any) error {
		return t.DB.Exec(explain, insertAgent, args...)
	}); err != nil {
		return err
	}
	a.Revision = 1
	if a.Config == nil {
		return nil
	}
	config, err := json.Marshal(a.Config)
	if err != nil {
		return t.DB.Fail(agentError("add", a, err))
	}
	return t.DB.Exec(func(err error) error { return agentError("add", a, err) }, insertConfig, a.UID, string(config))
}

// updateAgent writes the agent without its configuration, which never changes.
func (t Tx) updateAgent(a *fleet.Agent) error {
	t.DB.Lock(LockAgent, a.UID)
	t.lockWorkspace(a)
	return t.writeAgent("write", a, func(explain func(error) error, args []any) error {
		return t.DB.Revise(&a.Revision, explain, updateAgent, args...)
	})
}

func (t Tx) writeAgent(verb string, a *fleet.Agent, write func(explain func(error) error, args []any) error) error {
	args, err := agentArgs(a)
	if err != nil {
		return t.DB.Fail(agentError(verb, a, err))
	}
	return write(func(err error) error {
		if t.DB.Violates(err, uniqueAgentName) {
			return nameTakenError(a, err)
		}
		return agentError(verb, a, err)
	}, append(args, a.UID))
}

// lockWorkspace locks the workspace of the agent. It takes no lock if the agent has no workspace yet, so that transactions on
// such agents do not wait for each other.
func (t Tx) lockWorkspace(a *fleet.Agent) {
	if a.WorkspaceID != "" {
		t.DB.Lock(LockWorkspace, joinKey(a.Place, a.WorkspaceID))
	}
}
