// Package packed compresses what stores keep of payloads.
//
// The stores use it. It must never change its format without a migration: databases have it.
package packed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Pack compresses quickly rather than well, because a transaction is open meanwhile.
func Pack(payload []byte) ([]byte, error) {
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

// Unpack decompresses at most size bytes, since compressed data could expand to any size.
func Unpack(packed []byte, size int) ([]byte, error) {
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
