package record

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const (
	selectTools = `SELECT owner, agent, tool, created_at, updated_at FROM tools WHERE owner = ? ORDER BY n`
	putTool     = `INSERT INTO tools (owner, name, agent, tool, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (owner, name, agent) DO UPDATE SET tool = excluded.tool, updated_at = excluded.updated_at`
	selectToolCreated = `SELECT created_at FROM tools WHERE owner = ? AND name = ? AND agent = ?`
	deleteTool        = `DELETE FROM tools WHERE owner = ? AND name = ? AND agent = ?`
)

// Tools returns the tools that the owner has registered, see fleet.ReadTx.
func (t ReadTx) Tools(owner string) ([]*fleet.RegisteredTool, error) {
	t.DB.Lock(lockTools, owner)
	return QueryAll(t.DB, scanTool, selectTools, owner)
}

func (t Tx) putTool(tool *fleet.RegisteredTool) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	t.DB.Lock(lockTools, tool.Owner)
	explain := func(err error) error { return fmt.Errorf("keep tool %q: %w", tool.Name, err) }
	b, err := json.Marshal(tool.Tool)
	if err != nil {
		return t.DB.Fail(explain(err))
	}
	if err := t.DB.Exec(explain, putTool, tool.Owner, tool.Name, tool.Agent, string(b), tool.CreatedAt, tool.UpdatedAt); err != nil {
		return err
	}
	return t.DB.Query(func(row Scanner) error { return row.Scan((*TimeColumn)(&tool.CreatedAt)) }, selectToolCreated, tool.Owner, tool.Name, tool.Agent)
}

func (t Tx) deleteTool(tool *fleet.RegisteredTool) error {
	t.DB.Lock(lockTools, tool.Owner)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("remove tool %q: %w", tool.Name, err) },
		deleteTool, tool.Owner, tool.Name, tool.Agent)
}

func scanTool(row Scanner) (*fleet.RegisteredTool, error) {
	var r fleet.RegisteredTool
	return &r, row.Scan(&r.Owner, &r.Agent, jsonColumn{&r.Tool}, (*TimeColumn)(&r.CreatedAt), (*TimeColumn)(&r.UpdatedAt))
}
