//go:build cgo

package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
)

// maxEventSize limits the size of an event in a stream, in bytes.
const maxEventSize = 16 << 20

// answerBody is the body of a model's answer. In a stream, it passes on only events that the library's clients understand,
// converted to the form that they expect (streamConverter). It also counts the usage, and checks that the stream is complete.
type answerBody struct {
	io.ReadCloser
	request  *http.Request
	exchange *exchange
	isStream bool // the answer is a stream of events

	lines     *bufio.Reader
	out       bytes.Buffer // events that the client has not read yet
	converter streamConverter
	hasEvents bool
	err       error // what Read returns after out
}

// Read implements io.Reader.
func (a *answerBody) Read(p []byte) (int, error) {
	if !a.isStream {
		n, err := a.ReadCloser.Read(p)
		return n, a.preciseError(err)
	}
	for a.out.Len() == 0 && a.err == nil {
		a.err = a.readEvent()
	}
	if a.out.Len() == 0 {
		return 0, a.err
	}
	return a.out.Read(p)
}

// readEvent reads the next event and adds the events for the client to out. It returns io.EOF after the last event,
// even if the connection stays open.
func (a *answerBody) readEvent() error {
	if a.lines == nil {
		a.lines = bufio.NewReaderSize(a.ReadCloser, 64<<10)
	}
	var name string
	var data []byte
	for size := 0; ; {
		line, err := a.readLine(maxEventSize - size)
		size += len(line)
		line = bytes.TrimRight(line, "\r\n")
		switch key, value, _ := bytes.Cut(line, []byte(":")); string(key) {
		case "event":
			name = string(bytes.TrimSpace(value))
		case "data":
			data = append(append(data, bytes.TrimSpace(value)...), '\n')
		case "", "id", "retry":
		default: // some servers send an error without a prefix
			data = append(append(data, line...), '\n')
		}
		if len(line) > 0 && err == nil {
			continue
		}
		if data = bytes.TrimSpace(data); len(data) > 0 {
			a.hasEvents = true
			for _, e := range a.converter.convert(a.exchange, name, data) {
				e.write(&a.out)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return a.endError()
		case err != nil:
			return a.preciseError(err)
		case a.converter.closed:
			return io.EOF
		}
		return nil
	}
}

// readLine reads a line of at most limit bytes.
func (a *answerBody) readLine(limit int) (line []byte, err error) {
	for {
		part, err := a.lines.ReadSlice('\n')
		if line = append(line, part...); len(line) > limit {
			return nil, fmt.Errorf("an event of its answer is larger than %d bytes", maxEventSize)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// endError returns the error for the end of the stream: io.EOF if the answer is complete or the request was cancelled. It records any
// other error in the exchange.
func (a *answerBody) endError() error {
	if a.request.Context().Err() == nil {
		switch {
		case !a.hasEvents:
			return a.exchange.setError(fmt.Errorf("%s answered with an empty stream", a.request.URL.Host))
		case !a.converter.ended:
			return a.exchange.setError(fmt.Errorf("the answer of %s is incomplete: the stream ended early", a.request.URL.Host))
		}
	}
	return io.EOF
}

// preciseError returns a more precise error for an error of the connection, and records it in the exchange. It returns nil,
// io.EOF and errors of a cancelled request unchanged.
func (a *answerBody) preciseError(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF), a.request.Context().Err() != nil:
		return err
	case errors.Is(err, syscall.ECONNRESET):
		return a.exchange.setError(fmt.Errorf("%s reset the connection in the middle of the answer", a.request.URL.Host))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return a.exchange.setError(fmt.Errorf("the answer of %s is incomplete: the stream ended early", a.request.URL.Host))
	}
	return a.exchange.setError(fmt.Errorf("the answer of %s is incomplete: %w", a.request.URL.Host, err))
}

// sseEvent is an event of a stream.
type sseEvent struct {
	name string // may be empty
	data []byte
}

func (s sseEvent) write(w *bytes.Buffer) {
	if s.name != "" {
		w.WriteString("event: " + s.name + "\n")
	}
	w.WriteString("data: ")
	w.Write(bytes.ReplaceAll(s.data, []byte("\n"), []byte("\ndata: ")))
	w.WriteString("\n\n")
}
