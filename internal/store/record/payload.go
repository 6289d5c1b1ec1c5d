package record

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/packed"
)

const putPayload = `INSERT INTO payloads (task_id, size, gzip) VALUES (?, ?, ?)
	ON CONFLICT (task_id) DO UPDATE SET size = excluded.size, gzip = excluded.gzip`

// PackedPayload returns the task's payload as it is stored, see fleet.ReadTx.
func (t ReadTx) PackedPayload(taskID string) ([]byte, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryFirst(t.DB, ScanBytes, `SELECT gzip FROM payloads WHERE task_id = ?`, taskID)
}

// Payload returns the task's payload, see fleet.ReadTx.
func (t ReadTx) Payload(taskID string) ([]byte, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryFirst(t.DB, func(row Scanner) ([]byte, error) {
		var size int
		var gzip []byte
		if err := row.Scan(&size, &gzip); err != nil {
			return nil, err
		}
		return packed.Unpack(gzip, size)
	}, `SELECT size, gzip FROM payloads WHERE task_id = ?`, taskID)
}

func (t Tx) putPayload(taskID string, payload fleet.Payload) error {
	return t.putCompressed(func(err error) error { return fmt.Errorf("keep the payload of task %s: %w", taskID, err) }, putPayload, taskID, payload)
}

// appendPayload relies on a property of gzip: concatenated compressed pieces decompress to the concatenated pieces.
func (t Tx) appendPayload(taskID string, piece fleet.PayloadPiece) error {
	return t.putCompressed(func(err error) error { return fmt.Errorf("add to the payload of task %s: %w", taskID, err) }, t.DB.Dialect().AppendPayload, taskID, piece)
}

func (t Tx) putCompressed(explain func(error) error, query, taskID string, b []byte) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	gzip, err := packed.Pack(b)
	if err != nil {
		return t.DB.Fail(explain(err))
	}
	t.DB.Lock(LockTask, taskID)
	return t.DB.Exec(explain, query, taskID, len(b), gzip)
}
