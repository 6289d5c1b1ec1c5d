// Package packed compresses the payloads that stores keep. The stores call it, and it calls nothing of Fleet.
//
// Its format must never change without a migration, because existing databases contain it.
package packed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Pack compresses the payload with gzip. It prefers speed over size, because callers hold a transaction open.
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

// Unpack decompresses a payload of size bytes. It returns an error if the payload has another size. It decompresses at most one byte
// more, because damaged data could expand to any size.
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
		return nil, fmt.Errorf("read a payload: its size is not the recorded %d bytes", size)
	}
	return payload, nil
}
