package sqlite

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"fmt"
	"io"
)

const putPayload = `INSERT INTO payloads (task_id, size, gzip) VALUES (?, ?, ?)
	ON CONFLICT (task_id) DO UPDATE SET size = excluded.size, gzip = excluded.gzip`

// appendPayload relies on a property of gzip: concatenated compressed pieces decompress to the concatenated pieces.
const appendPayload = `INSERT INTO payloads (task_id, size, gzip) VALUES (?, ?, ?)
	ON CONFLICT (task_id) DO UPDATE SET size = size + excluded.size, gzip = CAST(gzip || excluded.gzip AS BLOB)`

func (t *readTx) Payload(taskID string) ([]byte, error) {
	return first(t, scanPayload, `SELECT size, gzip FROM payloads WHERE task_id = ?`, taskID)
}

func (t *tx) PutPayload(taskID string, payload []byte) error {
	if err := t.grow(); err != nil {
		return err
	}
	packed, err := pack(payload)
	if err == nil {
		_, err = t.exec(putPayload, taskID, len(payload), packed)
	}
	if err != nil {
		return t.failed(fmt.Errorf("keep the payload of task %s: %w", taskID, err))
	}
	return nil
}

func (t *readTx) PackedPayload(taskID string) ([]byte, error) {
	return first(t, scanBytes, `SELECT gzip FROM payloads WHERE task_id = ?`, taskID)
}

func (t *tx) AppendPayload(taskID string, piece []byte) error {
	if err := t.grow(); err != nil {
		return err
	}
	packed, err := pack(piece)
	if err == nil {
		_, err = t.exec(appendPayload, taskID, len(piece), packed)
	}
	if err != nil {
		return t.failed(fmt.Errorf("add to the payload of task %s: %w", taskID, err))
	}
	return nil
}

func scanBytes(row scanner) (b []byte, err error) { return b, row.Scan(&b) }

func scanPayload(row scanner) ([]byte, error) {
	var (
		size   int
		packed sql.RawBytes
	)
	if err := row.Scan(&size, &packed); err != nil {
		return nil, err
	}
	return unpack(packed, size)
}

// pack compresses quickly rather than well, because the write lock is held meanwhile.
func pack(payload []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(payload); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// unpack decompresses at most size bytes, since compressed data could expand to any size.
func unpack(packed []byte, size int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read a payload: %w", err)
	}
	payload, err := io.ReadAll(io.LimitReader(z, int64(size)+1)) // one more byte, because the checksum is verified at the end
	switch {
	case err != nil:
		return nil, fmt.Errorf("read a payload of %d bytes: %w", size, err)
	case len(payload) != size:
		return nil, fmt.Errorf("read a payload: it does not have the %d bytes it should have", size)
	}
	return payload, nil
}
