package agentapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// watch reads AgentAPI's event stream until it ends, and calls onChange with the conversation after each event. onChange must not
// keep or modify the view.
func (c *client) watch(ctx context.Context, onChange func(*view)) error {
	res, err := c.do(ctx, http.MethodGet, "events", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var v view
	r := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		name, data, err := ReadEvent(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := v.apply(name, data); err != nil {
			return err
		}
		v.skew = c.clockSkew()
		// The server sends all existing messages before the first status event, so the view is complete when it has a
		// status.
		if v.status != "" {
			onChange(&v)
		}
	}
}

// apply updates the view with an event. It ignores events that it does not know.
func (v *view) apply(name string, data []byte) error {
	switch name {
	case "message_update":
		var m struct {
			message
			Message string `json:"message"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		m.Content = m.Message
		if i := slices.IndexFunc(v.messages, func(known message) bool { return known.ID == m.ID }); i >= 0 {
			v.messages[i] = m.message
			return nil
		}
		v.messages = append(v.messages, m.message)
	case "status_change":
		var s agentStatus
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		v.status, v.agentType = s.Status, s.AgentType
	}
	return nil
}

var errEventSize = fmt.Errorf("a server-sent event is too long: more than %d bytes", maxConversation)

// ReadEvent reads one server-sent event. It skips events without data, and returns io.EOF at the end of the stream.
func ReadEvent(r *bufio.Reader) (name string, data []byte, err error) {
	for {
		line, err := r.ReadSlice('\n')
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > maxConversation {
				return "", nil, errEventSize
			}
			line, err = r.ReadSlice('\n')
		}
		if long != nil {
			line = append(long, line...)
		}
		if err != nil {
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0 && data != nil:
			return name, data, nil
		case len(line) == 0:
			name = ""
		case bytes.HasPrefix(line, []byte("event:")):
			name = string(bytes.TrimSpace(line[len("event:"):]))
		case bytes.HasPrefix(line, []byte("data:")):
			if data = append(data, bytes.TrimSpace(line[len("data:"):])...); len(data) > maxConversation {
				return "", nil, errEventSize
			}
		}
	}
}
