package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectTools = `SELECT owner, agent, tool, created_at, updated_at FROM tools WHERE owner = ? ORDER BY n`
	putTool     = `INSERT INTO tools (owner, name, agent, tool, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (owner, name, agent) DO UPDATE SET tool = excluded.tool, updated_at = excluded.updated_at
		RETURNING created_at`
	deleteTool = `DELETE FROM tools WHERE owner = ? AND name = ? AND agent = ?`
)

func (t *readTx) Tools(owner string) ([]*fleet.RegisteredTool, error) {
	return all(t, record.ScanTool, selectTools, owner)
}

func (t *tx) insertTool(tool *fleet.RegisteredTool) error {
	if err := t.grow(); err != nil {
		return err
	}
	b, err := json.Marshal(tool.Tool)
	if err != nil {
		return t.failed(fmt.Errorf("keep tool %q: %w", tool.Name, err))
	}
	t.wrote = true
	created, err := first(&t.readTx, scanNullInt64, putTool, tool.Owner, tool.Name, tool.Agent, string(b),
		micros(tool.CreatedAt), micros(tool.UpdatedAt))
	if err != nil {
		return t.failed(fmt.Errorf("keep tool %q: %w", tool.Name, err))
	}
	tool.CreatedAt = timeOf(created)
	return nil
}

func (t *tx) deleteTool(tool *fleet.RegisteredTool) error {
	if _, err := t.exec(deleteTool, tool.Owner, tool.Name, tool.Agent); err != nil {
		return t.failed(fmt.Errorf("remove tool %q: %w", tool.Name, err))
	}
	return nil
}

func scanNullInt64(row scanner) (n sql.NullInt64, err error) { return n, row.Scan(&n) }
