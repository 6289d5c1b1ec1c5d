package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectTools = `SELECT owner, agent, tool, created_at, updated_at FROM tools WHERE owner = $1 ORDER BY n`
	putTool     = `INSERT INTO tools (owner, name, agent, tool, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (owner, name, agent) DO UPDATE SET tool = excluded.tool, updated_at = excluded.updated_at
		RETURNING created_at`
	deleteTool = `DELETE FROM tools WHERE owner = $1 AND name = $2 AND agent = $3`
)

func (t *readTx) Tools(owner string) ([]*fleet.RegisteredTool, error) {
	t.lock(lockTools, owner)
	return all(t, record.ScanTool, selectTools, owner)
}

func (t *tx) insertTool(tool *fleet.RegisteredTool) error {
	if err := t.grow(); err != nil {
		return err
	}
	t.lock(lockTools, tool.Owner)
	b, err := json.Marshal(tool.Tool)
	if err != nil {
		return t.failed(fmt.Errorf("keep tool %q: %w", tool.Name, err))
	}
	t.wrote = true
	created, err := first(&t.readTx, scanTime, putTool, tool.Owner, tool.Name, tool.Agent, string(b),
		tool.CreatedAt, tool.UpdatedAt)
	if err != nil {
		return t.failed(fmt.Errorf("keep tool %q: %w", tool.Name, err))
	}
	tool.CreatedAt = timeOf(created)
	return nil
}

func (t *tx) deleteTool(tool *fleet.RegisteredTool) error {
	t.lock(lockTools, tool.Owner)
	if err := t.exec(deleteTool, tool.Owner, tool.Name, tool.Agent); err != nil {
		return t.failed(fmt.Errorf("remove tool %q: %w", tool.Name, err))
	}
	return nil
}

func scanTime(row scanner) (at *time.Time, err error) { return at, row.Scan(&at) }
