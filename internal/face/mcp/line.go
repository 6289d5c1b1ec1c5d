package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// line is a line of input, or the error that readLine returned instead.
type line struct {
	message []byte
	err     error
}

// errLineTooLong is returned for a line that is longer than the message limit.
var errLineTooLong = errors.New("the line is too long")

// readLines sends every non-empty line of in. For a line that is longer than maxBytes, it sends errLineTooLong and continues with
// the next line. It returns when it has sent another error, such as io.EOF, or when ctx is done.
func readLines(ctx context.Context, in io.Reader, maxBytes int64, lines chan<- line) {
	r := bufio.NewReader(in)
	send := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		message, err := readLine(r, maxBytes)
		if len(message) > 0 && !send(line{message: message}) {
			return
		}
		if err != nil && (!send(line{err: err}) || !errors.Is(err, errLineTooLong)) {
			return
		}
	}
}

// readLine reads up to the end of a line or of the input, and returns the line without surrounding white space. It skips a line that
// is longer than maxBytes and returns errLineTooLong.
func readLine(r *bufio.Reader, maxBytes int64) ([]byte, error) {
	var message []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || int64(len(message)+len(part)) > maxBytes; tooLong {
			message = nil
		} else {
			message = append(message, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && err == nil:
			return nil, errLineTooLong
		default:
			return bytes.TrimSpace(message), err
		}
	}
}
