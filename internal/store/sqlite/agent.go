package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

const (
	agentColumns = `traceparent, name, name_key, owner, project, role, spec, workspace_id, location, metadata, state, state_reason,
		desired, restart, restarted, attempts, retry_at, created_at, updated_at, deleted_at, toolset, place, one_task,
		refused, refused_field, conversed, shares`
	selectAgents = `SELECT uid, ` + agentColumns + `, revision, recipe FROM agents LEFT JOIN recipes ON agent_uid = uid `
	byName       = ` ORDER BY name_key, owner`
	insertConfig = `INSERT INTO recipes (agent_uid, recipe) VALUES (?, ?)`
)

var (
	insertAgent = `INSERT INTO agents (` + agentColumns + `, uid, revision) VALUES (` + marks(agentColumns) + `, ?, 1)`
	updateAgent = `UPDATE agents SET (` + agentColumns + `) = (` + marks(agentColumns) + `), revision = revision + 1
		WHERE uid = ? RETURNING revision`
)

// key returns the form in which names are compared. SQLite's lower() folds only ASCII.
func key(name string) string { return strings.ToLower(name) }

func (t *readTx) Agent(uid string) (*fleet.Agent, error) {
	return first(t, scanAgent, selectAgents+`WHERE uid = ?`, uid)
}

func (t *readTx) AgentsByName(name, owner string) ([]*fleet.Agent, error) {
	if owner == "" {
		return all(t, scanAgent, selectAgents+`WHERE name_key = ? AND deleted_at IS NULL`+byName, key(name))
	}
	return all(t, scanAgent, selectAgents+`WHERE name_key = ? AND owner = ? AND deleted_at IS NULL`+byName, key(name), owner)
}

func (t *readTx) AgentByWorkspace(place, workspaceID string) (*fleet.Agent, error) {
	return first(t, scanAgent, selectAgents+`WHERE workspace_id <> '' AND workspace_id = ? AND place = ? ORDER BY created_at DESC, n DESC LIMIT 1`,
		workspaceID, place)
}

func (t *readTx) Agents() ([]*fleet.Agent, error) {
	return all(t, scanAgent, selectAgents+`WHERE deleted_at IS NULL`+byName)
}

func (t *readTx) SharedAgents() ([]*fleet.Agent, error) {
	return all(t, scanAgent, selectAgents+`WHERE shares IS NOT NULL ORDER BY uid`)
}

func (t *tx) InsertAgent(a *fleet.Agent) error {
	if err := t.grow(); err != nil {
		return err
	}
	args, err := agentArgs(a)
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

// UpdateAgent does not write the configuration, which never changes.
func (t *tx) UpdateAgent(a *fleet.Agent) error {
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
	if taken(err, "agents.name_key") {
		return fleet.Errorf(fleet.ReasonAgentExists,
			"an agent named %q already exists: choose another name, or delete that agent first", a.Name).WithCause(err)
	}
	return fmt.Errorf("%s agent %s: %w", act, a.UID, err)
}

func agentArgs(a *fleet.Agent) ([]any, error) {
	shares, err := sharesArg(a)
	if err != nil {
		return nil, err
	}
	var metadata sql.NullString
	if a.Metadata != nil {
		b, err := json.Marshal(a.Metadata)
		if err != nil {
			return nil, err
		}
		metadata = sql.NullString{String: string(b), Valid: true}
	}
	return []any{
		a.Trace, a.Name, key(a.Name), a.Owner, a.Project, a.Role, a.Spec, a.WorkspaceID, a.Location, metadata,
		string(a.State), a.StateReason, string(a.Desired), a.Restart, a.Restarted, a.Attempts, maybeMicros(a.RetryAt),
		micros(a.CreatedAt), micros(a.UpdatedAt), maybeMicros(a.DeletedAt), string(a.Toolset), a.Place, a.OneTask,
		string(a.Refused), a.RefusedField, a.Conversed, shares,
	}, nil
}

// sharesArg returns the agent's shares as they are stored: NULL if there are none.
func sharesArg(a *fleet.Agent) (s sql.NullString, err error) {
	if len(a.Shares) == 0 {
		return s, nil
	}
	b, err := json.Marshal(a.Shares)
	return sql.NullString{String: string(b), Valid: true}, err
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
		nameKey                       sql.RawBytes
		metadata, agentConfig, shares sql.RawBytes
		retry, created, updated, gone sql.NullInt64
	)
	err := row.Scan(&a.UID, &a.Trace, &a.Name, &nameKey, &a.Owner, &a.Project, &a.Role, &a.Spec, &a.WorkspaceID, &a.Location,
		&metadata, (*string)(&a.State), &a.StateReason, (*string)(&a.Desired), &a.Restart, &a.Restarted, &a.Attempts, &retry,
		&created, &updated, &gone, (*string)(&a.Toolset), &a.Place, &a.OneTask,
		(*string)(&a.Refused), &a.RefusedField, &a.Conversed, &shares, &a.Revision, &agentConfig)
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
	if agentConfig == nil {
		return nil
	}
	return json.Unmarshal(agentConfig, &a.Config)
}
