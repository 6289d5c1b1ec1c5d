package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
)

// clientSession is the mcp-go session of Stdio's single client.
type clientSession struct {
	initialized   atomic.Bool
	notifications chan mcp.JSONRPCNotification
}

// newClientSession returns a session that can buffer the notifications that mcp-go sends during one request.
func newClientSession() *clientSession {
	return &clientSession{notifications: make(chan mcp.JSONRPCNotification, 100)}
}

func (c *clientSession) Initialize() { c.initialized.Store(true) }

func (c *clientSession) Initialized() bool { return c.initialized.Load() }

func (c *clientSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notifications }
func (c *clientSession) SessionID() string                                   { return "stdio" }

// line is a line of input, or the error that was read instead of one.
type line struct {
	message []byte
	err     error
}

// errLineTooLong is returned for a line that is longer than the message limit.
var errLineTooLong = errors.New("the line is too long")

// readLines sends every non-empty line of in, and finally an error. For a line that is too long it sends errLineTooLong and
// continues with the next line.
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

// readLine reads up to the end of a line or of the input.
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
