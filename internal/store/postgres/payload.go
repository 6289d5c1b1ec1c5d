package postgres

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/packed"
)

const putPayload = `INSERT INTO payloads AS p (task_id, size, gzip) VALUES ($1, $2, $3)
	ON CONFLICT (task_id) DO UPDATE SET size = excluded.size, gzip = excluded.gzip`

// appendPayload relies on a property of gzip: concatenated compressed pieces decompress to the concatenated pieces.
const appendPayload = `INSERT INTO payloads AS p (task_id, size, gzip) VALUES ($1, $2, $3)
	ON CONFLICT (task_id) DO UPDATE SET size = p.size + excluded.size, gzip = p.gzip || excluded.gzip`

func (t *readTx) Payload(taskID string, packed bool) ([]byte, error) {
	t.lock(lockTask, taskID)
	if packed {
		return first(t, scanBytes, `SELECT gzip FROM payloads WHERE task_id = $1`, taskID)
	}
	return first(t, scanPayload, `SELECT size, gzip FROM payloads WHERE task_id = $1`, taskID)
}

func (t *tx) putPayload(taskID string, payload fleet.Payload) error {
	if err := t.grow(); err != nil {
		return err
	}
	gzip, err := packed.Pack(payload)
	if err == nil {
		t.lock(lockTask, taskID)
		err = t.exec(putPayload, taskID, len(payload), gzip)
	}
	if err != nil {
		return t.failed(fmt.Errorf("keep the payload of task %s: %w", taskID, err))
	}
	return nil
}

func (t *tx) appendPayload(taskID string, piece fleet.PayloadPiece) error {
	if err := t.grow(); err != nil {
		return err
	}
	gzip, err := packed.Pack(piece)
	if err == nil {
		t.lock(lockTask, taskID)
		err = t.exec(appendPayload, taskID, len(piece), gzip)
	}
	if err != nil {
		return t.failed(fmt.Errorf("add to the payload of task %s: %w", taskID, err))
	}
	return nil
}

func scanPayload(row scanner) ([]byte, error) {
	var (
		size  int
		bytes []byte
	)
	if err := row.Scan(&size, &bytes); err != nil {
		return nil, err
	}
	return packed.Unpack(bytes, size)
}
