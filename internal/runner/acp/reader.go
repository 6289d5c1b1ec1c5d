package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// lineReader reads the program's lines. It handles an update before it passes the following lines to the connection.
// Otherwise the connection could handle a request for permission before the update that describes it.
type lineReader struct {
	lines         *bufio.Reader
	onUpdate      func(params json.RawMessage)
	onClaudeEvent func(params json.RawMessage)
	rest          []byte // unread rest of a line for the connection

	mu          sync.Mutex
	lastUnknown string // the last line that is not JSON, such as an error message of a program that does not speak the protocol
}

// maxUnknownKept limits how much of a line that is not JSON is kept, in bytes.
const maxUnknownKept = 500

// Read implements io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, err := r.lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			r.handleLine(line)
		}
		if err != nil && len(r.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// handleLine handles the line if it is an update. It keeps a line that is not JSON for error texts, and any other line for
// the connection.
func (r *lineReader) handleLine(line []byte) {
	var m struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil && !json.Valid(line):
		r.mu.Lock()
		r.lastUnknown = string(line[:min(len(line), maxUnknownKept)])
		r.mu.Unlock()
	case err == nil && m.Method == acp.ClientMethodSessionUpdate:
		r.onUpdate(m.Params)
	case err == nil && m.Method == claudeEventMethod:
		r.onClaudeEvent(m.Params)
	default:
		r.rest = append(line, '\n')
	}
}

// unknownLine returns the last line that is not JSON, shortened to maxUnknownKept bytes.
func (r *lineReader) unknownLine() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastUnknown
}
