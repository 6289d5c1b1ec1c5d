//go:build cgo

package cagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
)

// answer is the body of a model's answer. It counts the usage in a stream and checks that the stream is complete.
type answer struct {
	io.ReadCloser
	from     *http.Request
	exchange *exchange
	stream   bool

	line  []byte // the start of an incomplete event
	began bool
	ended bool
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.stream {
		a.readAlong(p[:n])
	}
	switch {
	case err == nil, a.from.Context().Err() != nil:
	case errors.Is(err, syscall.ECONNRESET):
		err = a.exchange.fail(fmt.Errorf("%s reset the connection in the middle of the answer", a.from.URL.Host))
	case !errors.Is(err, io.EOF), a.stream && a.began && !a.ended:
		err = a.exchange.fail(fmt.Errorf("the answer of %s is incomplete: the stream ended early", a.from.URL.Host))
	case a.stream && !a.began:
		err = a.exchange.fail(fmt.Errorf("%s answered with an empty stream", a.from.URL.Host))
	}
	return n, err
}

func (a *answer) readAlong(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if len(a.line) < maxEvent {
				a.line = append(a.line, p...)
			}
			return
		}
		line := p[:i]
		if len(a.line) > 0 {
			line = append(a.line, line...)
			a.line = a.line[:0]
		}
		if data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r"), []byte("data:")); ok {
			a.event(bytes.TrimSpace(data))
		}
		p = p[i+1:]
	}
}

// messagesUsage is the usage in an event of the Messages API. A field is nil if the event does not have it.
type messagesUsage struct {
	Input   *int64 `json:"input_tokens"`
	Output  *int64 `json:"output_tokens"`
	Cached  *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
}

// event handles the data of one event of any API.
func (a *answer) event(data []byte) {
	if len(data) == 0 {
		return
	}
	a.began = true
	var e struct {
		Type    string `json:"type"`
		Error   any    `json:"error"`
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Candidates []struct {
			FinishReason string `json:"finishReason"`
		} `json:"candidates"`
		PromptFeedback any `json:"promptFeedback"` // comes instead of candidates if the prompt was refused
		Message        struct {
			Usage messagesUsage `json:"usage"`
		} `json:"message"`
		Usage messagesUsage `json:"usage"`
	}
	if string(data) == "[DONE]" {
		a.ended = true
		return
	}
	if json.Unmarshal(data, &e) != nil {
		return // the client reports the error
	}
	switch e.Type {
	case "message_start":
		a.exchange.count(e.Message.Usage)
	case "message_delta":
		a.exchange.count(e.Usage)
	case "message_stop", "response.completed", "response.incomplete", "response.failed", "response.done", "error":
		a.ended = true
	}
	for _, c := range e.Choices {
		a.ended = a.ended || c.FinishReason != ""
	}
	for _, c := range e.Candidates {
		a.ended = a.ended || c.FinishReason != ""
	}
	a.ended = a.ended || e.Error != nil || e.PromptFeedback != nil && len(e.Candidates) == 0
}

// count updates the usage of the exchange. The figures in an event are totals since the beginning of the answer, so
// count keeps the largest.
func (x *exchange) count(u messagesUsage) {
	defer func() {
		if x.told != nil {
			x.told()
		}
	}()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.usage == nil {
		x.usage = &tokens{}
	}
	for _, f := range []struct{ to, said *int64 }{
		{&x.usage.input, u.Input}, {&x.usage.output, u.Output}, {&x.usage.cached, u.Cached}, {&x.usage.written, u.Written},
	} {
		if f.said != nil {
			*f.to = max(*f.to, *f.said)
		}
	}
}
