package postgres

import (
	"encoding/json"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	byName       = ` ORDER BY name_key, owner`
	oneAgent     = record.SelectAgents + `WHERE uid = $1`
	agentsNamed  = record.SelectAgents + `WHERE name_key = $1 AND deleted_at IS NULL` + byName
	ownersAgent  = record.SelectAgents + `WHERE name_key = $1 AND owner = $2 AND deleted_at IS NULL` + byName
	ofWorkspace  = record.SelectAgents + `WHERE workspace_id <> '' AND workspace_id = $1 AND place = $2 ORDER BY created_at DESC, n DESC LIMIT 1`
	liveAgents   = record.SelectAgents + `WHERE deleted_at IS NULL` + byName
	newestAgent  = record.SelectAgents + `WHERE name_key = $1 AND toolset = '' AND ($2 = '' OR owner = $2) ORDER BY created_at DESC, n DESC LIMIT 1`
	someAgents   = record.SelectAgents + `WHERE uid = ANY($1)` + byName
	sharedAgents = record.SelectAgents + `WHERE shares IS NOT NULL ORDER BY uid`
	insertConfig = `INSERT INTO agent_configs (agent_uid, config) VALUES ($1, $2)`
)

var (
	insertAgent = numbered(`INSERT INTO agents (` + record.AgentColumns + `, uid, revision) VALUES (` + record.Marks(record.AgentColumns) + `, ?, 1)`)
	updateAgent = existing("", numbered(`UPDATE agents SET (`+record.AgentColumns+`) = ROW (`+record.Marks(record.AgentColumns)+`), revision = revision + 1
		WHERE uid = ? RETURNING revision`))
)

func (t *readTx) Agent(uid string) (*fleet.Agent, error) {
	t.lock(lockAgent, uid)
	return first(t, record.ScanAgent, oneAgent, uid)
}

func (t *readTx) Agents(f fleet.AgentFilter) ([]*fleet.Agent, error) {
	name := record.Key(f.Name)
	switch {
	case f.Shared:
		return all(t, record.ScanAgent, sharedAgents)
	case f.WorkspaceID != "":
		t.lock(lockPlace, joined(f.Place, f.WorkspaceID))
		return t.agents(ofWorkspace, f.WorkspaceID, f.Place)
	case f.Name == "":
		return nil, t.err
	}
	t.lock(lockName, name)
	switch {
	case f.Newest:
		return t.agents(newestAgent, name, f.Owner)
	case f.Owner != "":
		return t.agents(ownersAgent, name, f.Owner)
	default:
		return t.agents(agentsNamed, name)
	}
}

// agents returns the agents of the query's result, and locks them.
func (t *readTx) agents(query string, args ...any) ([]*fleet.Agent, error) {
	return settled(t, lockAgent, uidOf, func() ([]*fleet.Agent, error) { return all(t, record.ScanAgent, query, args...) })
}

func uidOf(a *fleet.Agent) []string { return []string{a.UID} }

func (t *tx) insertAgent(a *fleet.Agent) error {
	if err := t.grow(); err != nil {
		return err
	}
	t.lock(lockAgent, a.UID)
	t.lock(lockName, record.Key(a.Name))
	t.lockWorkspace(a)
	t.share(lockHoldings, a.Owner)
	explain := func(err error) error { return agentError("add", a, err) }
	args, err := record.AgentArgs(a)
	if err != nil {
		return t.failed(explain(err))
	}
	if err := t.execLater(explain, insertAgent, append(args, a.UID)...); err != nil {
		return err
	}
	a.Revision = 1
	if a.Config == nil {
		return nil
	}
	config, err := json.Marshal(a.Config)
	if err != nil {
		return t.failed(explain(err))
	}
	return t.execLater(explain, insertConfig, a.UID, string(config))
}

// UpdateAgent writes the agent without its configuration, which never changes.
func (t *tx) updateAgent(a *fleet.Agent) error {
	t.lock(lockAgent, a.UID)
	t.lockWorkspace(a)
	explain := func(err error) error { return agentError("write", a, err) }
	args, err := record.AgentArgs(a)
	if err != nil {
		return t.failed(explain(err))
	}
	return t.reviseLater(&a.Revision, explain, updateAgent, append(args, a.UID)...)
}

// lockWorkspace locks the agents of the agent's workspace. It takes no lock if the agent has no workspace yet, so that
// such agents do not wait for each other.
func (t *tx) lockWorkspace(a *fleet.Agent) {
	if a.WorkspaceID != "" {
		t.lock(lockPlace, joined(a.Place, a.WorkspaceID))
	}
}

func agentError(act string, a *fleet.Agent, err error) error {
	return record.AgentError(act, a, err, taken(err, "agents_name"))
}
