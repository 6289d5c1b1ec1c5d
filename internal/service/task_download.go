package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// Download is a payload of a task to read. It keeps only the compressed form in memory.
type Download struct {
	io.Reader  // the payload from the requested offset; it can be read once
	Task       *fleet.Task
	Size       int64             // of the whole payload, in bytes
	SHA256     [sha256.Size]byte // of the whole payload
	IsText     bool              // whether the whole payload is text in UTF-8
	PackedSize int               // of the compressed form, in bytes
}

// DownloadPayload returns the payload of the task from the offset, in bytes. The error is PAYLOAD_NOT_FOUND if the task has no
// payload, or its payload was removed.
func (s *Service) DownloadPayload(ctx context.Context, id string, offset int64) (*Download, error) {
	if offset < 0 {
		return nil, fleet.InvalidField("offset", "offset is %d: give 0 or more", offset)
	}
	d := &Download{}
	packed, err := viewTask(ctx, s, id, func(tx fleet.ReadTx, t *fleet.Task) ([]byte, error) {
		d.Task = t
		return tx.PackedPayload(t.ID)
	})
	if err != nil {
		return nil, err
	}
	if packed == nil {
		return nil, errNoPayload(d.Task)
	}
	d.PackedSize = len(packed)
	if err := d.examine(packed); err != nil {
		return nil, err
	}
	if offset > d.Size {
		return nil, fleet.InvalidField("offset", "offset is %d: give 0 to %d, the size of the payload in bytes", offset, d.Size)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		_, err = io.CopyN(io.Discard, z, offset)
	}
	if err != nil {
		return nil, fmt.Errorf("read the payload of task %s: %w", d.Task.ID, err)
	}
	d.Reader = io.LimitReader(z, d.Size-offset)
	return d, nil
}

// examine reads the whole payload without keeping it, and sets Size, SHA256 and IsText. It returns an error if the payload is
// damaged or larger than Task.PayloadSize.
func (d *Download) examine(packed []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("read the payload of task %s: %w", d.Task.ID, err)
	}
	sum, text := sha256.New(), utf8Check{}
	most := int64(d.Task.PayloadSize) + 1 // compressed data could expand to any size
	if d.Size, err = io.Copy(io.MultiWriter(sum, &text), io.LimitReader(z, most)); err != nil {
		return fmt.Errorf("read the payload of task %s: %w", d.Task.ID, err)
	}
	if d.Size == most {
		return fmt.Errorf("read the payload of task %s: it is larger than its %d bytes", d.Task.ID, d.Task.PayloadSize)
	}
	sum.Sum(d.SHA256[:0])
	d.IsText = text.valid()
	return nil
}

// errNoPayload returns PAYLOAD_NOT_FOUND, and says why the task has no payload.
func errNoPayload(t *fleet.Task) *fleet.Error {
	why := "has no payload"
	switch {
	case t.PayloadRemoved:
		why = "no longer has its payload: the retention period is over"
	case t.Active():
		why = "has no payload yet"
	}
	return fleet.Errorf(fleet.ReasonPayloadNotFound, "task %q %s", t.ID, why).With("task_id", t.ID)
}

// utf8Check is a writer that checks whether the bytes written to it are valid UTF-8.
type utf8Check struct {
	rest   []byte // the beginning of a character that the next write may complete
	broken bool   // the bytes before rest are not UTF-8
}

func (c *utf8Check) Write(p []byte) (int, error) {
	b := p
	if len(c.rest) > 0 {
		b = slices.Concat(c.rest, p)
	}
	whole := withoutBrokenEnd(b)
	c.broken = c.broken || !utf8.Valid(whole)
	c.rest = bytes.Clone(b[len(whole):])
	return len(p), nil
}

func (c *utf8Check) valid() bool { return !c.broken && len(c.rest) == 0 }
