package process

import "bytes"

// Head keeps the first bytes of a program's output, up to Max, and discards the rest.
type Head struct {
	Max  int          // in bytes
	kept bytes.Buffer // not embedded, because the ReadFrom of bytes.Buffer would bypass the limit
}

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	h.kept.Write(p[:min(len(p), h.Max-h.kept.Len())])
	return len(p), nil
}

// String returns the bytes that were kept.
func (h *Head) String() string { return h.kept.String() }
