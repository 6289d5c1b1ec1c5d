package app

import (
	"errors"
	"io"

	"google.golang.org/grpc/encoding/gzip"
)

// noDecompression refuses compressed gRPC messages. A library registers gzip for the whole process, and a small message could
// become a large one before the server knows who sends it.
type noDecompression struct{}

// Do implements grpc.Decompressor.
func (noDecompression) Do(io.Reader) ([]byte, error) {
	return nil, errors.New("this server accepts no compressed messages: send them without compression")
}

// Type implements grpc.Decompressor.
func (noDecompression) Type() string { return gzip.Name }
