package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

const (
	agentColumns = `traceparent, name, name_key, owner, project, role, spec, workspace_id, location, metadata, state, state_reason,
		desired, restart, restarted, attempts, retry_at, created_at, updated_at, deleted_at, toolset, place, one_task,
		refused, refused_field, conversed, shares`
	selectAgents = `SELECT uid, ` + agentColumns + `, revision, recipe FROM agents LEFT JOIN recipes ON agent_uid = uid `
	byName       = ` ORDER BY name_key, owner`
	oneAgent     = selectAgents + `WHERE uid = $1`
	agentsNamed  = selectAgents + `WHERE name_key = $1 AND deleted_at IS NULL` + byName
	ownersAgent  = selectAgents + `WHERE name_key = $1 AND owner = $2 AND deleted_at IS NULL` + byName
	ofWorkspace  = selectAgents + `WHERE workspace_id <> '' AND workspace_id = $1 AND place = $2 ORDER BY created_at DESC, n DESC LIMIT 1`
	liveAgents   = selectAgents + `WHERE deleted_at IS NULL` + byName
	newestAgent  = selectAgents + `WHERE name_key = $1 AND toolset = '' AND ($2 = '' OR owner = $2) ORDER BY created_at DESC, n DESC LIMIT 1`
	someAgents   = selectAgents + `WHERE uid = ANY($1)` + byName
	sharedAgents = selectAgents + `WHERE shares IS NOT NULL ORDER BY uid`
	insertRecipe = `INSERT INTO recipes (agent_uid, recipe) VALUES ($1, $2)`
)

var (
	insertAgent = numbered(`INSERT INTO agents (` + agentColumns + `, uid, revision) VALUES (` + marks(agentColumns) + `, ?, 1)`)
	updateAgent = numbered(`UPDATE agents SET (` + agentColumns + `) = ROW (` + marks(agentColumns) + `), revision = revision + 1
		WHERE uid = ? RETURNING revision`)
)

// key returns the form in which names are compared, which does not depend on the database's locale.
func key(name string) string { return strings.ToLower(name) }

func (t *readTx) Agent(uid string) (*fleet.Agent, error) {
	t.lock(lockAgent, uid)
	return first(t, scanAgent, oneAgent, uid)
}

func (t *readTx) AgentsByName(name, owner string) ([]*fleet.Agent, error) {
	t.lock(lockName, key(name))
	return settled(t, lockAgent, uidOf, func() ([]*fleet.Agent, error) {
		if owner == "" {
			return all(t, scanAgent, agentsNamed, key(name))
		}
		return all(t, scanAgent, ownersAgent, key(name), owner)
	})
}

func (t *readTx) NewestAgent(name, owner string) (*fleet.Agent, error) {
	t.lock(lockName, key(name))
	return t.agent(newestAgent, key(name), owner)
}

func (t *readTx) AgentByWorkspace(place, workspaceID string) (*fleet.Agent, error) {
	t.lock(lockPlace, joined(place, workspaceID))
	return t.agent(ofWorkspace, workspaceID, place)
}

// agent returns the first agent of the query's result.
func (t *readTx) agent(query string, args ...any) (*fleet.Agent, error) {
	got, err := settled(t, lockAgent, uidOf, func() ([]*fleet.Agent, error) { return all(t, scanAgent, query, args...) })
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

func uidOf(a *fleet.Agent) []string { return []string{a.UID} }

func (t *readTx) Agents() ([]*fleet.Agent, error) { return all(t, scanAgent, liveAgents) }

func (t *readTx) SharedAgents() ([]*fleet.Agent, error) { return all(t, scanAgent, sharedAgents) }

func (t *tx) InsertAgent(a *fleet.Agent) error {
	if err := t.grow(); err != nil {
		return err
	}
	t.lock(lockAgent, a.UID)
	t.lock(lockName, key(a.Name))
	t.lock(lockPlace, joined(a.Place, a.WorkspaceID))
	t.share(lockHoldings, a.Owner)
	args, err := agentArgs(a)
	if err == nil {
		err = t.exec(insertAgent, append(args, a.UID)...)
	}
	if err == nil && a.Config != nil {
		err = t.insertRecipe(a)
	}
	if err != nil {
		return t.failed(agentError("add", a, err))
	}
	a.Revision = 1
	return nil
}

func (t *tx) insertRecipe(a *fleet.Agent) error {
	b, err := json.Marshal(a.Config)
	if err == nil {
		err = t.exec(insertRecipe, a.UID, string(b))
	}
	return err
}

// UpdateAgent does not write the recipe, which never changes.
func (t *tx) UpdateAgent(a *fleet.Agent) error {
	t.lock(lockAgent, a.UID)
	if a.WorkspaceID != "" {
		t.lock(lockPlace, joined(a.Place, a.WorkspaceID))
	}
	args, err := agentArgs(a)
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
	if taken(err, "agents_name") {
		return fleet.Errorf(fleet.ReasonAgentExists,
			"an agent named %q already exists: choose another name, or delete that agent first", a.Name).WithCause(err)
	}
	return fmt.Errorf("%s agent %s: %w", act, a.UID, err)
}

func agentArgs(a *fleet.Agent) ([]any, error) {
	var metadata, shares *string
	if len(a.Shares) > 0 {
		b, err := json.Marshal(a.Shares)
		if err != nil {
			return nil, err
		}
		shares = new(string(b))
	}
	if a.Metadata != nil {
		b, err := json.Marshal(a.Metadata)
		if err != nil {
			return nil, err
		}
		metadata = new(string(b))
	}
	return []any{
		a.Trace, a.Name, key(a.Name), a.Owner, a.Project, a.Role, a.Spec, a.WorkspaceID, a.Location, metadata,
		string(a.State), a.StateReason, string(a.Desired), a.Restart, a.Restarted, a.Attempts, maybe(a.RetryAt),
		a.CreatedAt, a.UpdatedAt, maybe(a.DeletedAt), string(a.Toolset), a.Place, a.OneTask,
		string(a.Refused), a.RefusedField, a.Conversed, shares,
	}, nil
}

func scanAgent(row scanner) (*fleet.Agent, error) {
	a := &fleet.Agent{}
	if err := scanAgentInto(row, a); err != nil {
		return nil, err
	}
	return a, nil
}

func scanAgentInto(row scanner, a *fleet.Agent) error {
	var (
		nameKey                       string
		metadata, recipe, shares      []byte
		retry, created, updated, gone *time.Time
	)
	err := row.Scan(&a.UID, &a.Trace, &a.Name, &nameKey, &a.Owner, &a.Project, &a.Role, &a.Spec, &a.WorkspaceID, &a.Location,
		&metadata, (*string)(&a.State), &a.StateReason, (*string)(&a.Desired), &a.Restart, &a.Restarted, &a.Attempts, &retry,
		&created, &updated, &gone, (*string)(&a.Toolset), &a.Place, &a.OneTask,
		(*string)(&a.Refused), &a.RefusedField, &a.Conversed, &shares, &a.Revision, &recipe)
	if err != nil {
		return err
	}
	a.RetryAt, a.CreatedAt, a.UpdatedAt, a.DeletedAt = timeOf(retry), timeOf(created), timeOf(updated), timeOf(gone)
	if metadata != nil {
		if err := json.Unmarshal(metadata, &a.Metadata); err != nil {
			return err
		}
	}
	if shares != nil {
		if err := json.Unmarshal(shares, &a.Shares); err != nil {
			return err
		}
	}
	if recipe == nil {
		return nil
	}
	return json.Unmarshal(recipe, &a.Config)
}
