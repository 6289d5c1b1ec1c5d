//go:build cgo

package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/docker/cagent/pkg/session"

	"fleet/internal/place/agentfile"
)

// conversation appends an agent's conversation to a file with one item per line. It implements the library's session.Store for
// one run, and writes each message as soon as it is complete.
type conversation struct {
	session.Store
	path        string
	id          string // of the session whose items are saved
	savedCount  int
	writeFailed bool
	onError     func(error) // called when a write fails
}

// openConversation returns the conversation in the file, and its items. It removes an incomplete last line from the file. If
// the file does not exist, the conversation is empty.
func openConversation(path string) (*conversation, []session.Item, error) {
	items, completeSize, err := readItems(path)
	if err != nil {
		return nil, nil, err
	}
	if completeSize >= 0 {
		if err := os.Truncate(path, completeSize); err != nil { // so that the next line is valid
			return nil, nil, err
		}
	}
	return &conversation{Store: session.NewInMemorySessionStore(), path: path, savedCount: len(items)}, items, nil
}

// readItems returns the items in the file, or none if it does not exist. If the last line is incomplete, completeSize is the
// length of the file without that line, in bytes; otherwise it is -1.
func readItems(path string) (items []session.Item, completeSize int64, err error) {
	f, err := agentfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, -1, nil
	}
	if err != nil {
		return nil, -1, err
	}
	defer func() { _ = f.Close() }()
	completeSize = 0
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) == 0 {
				return items, -1, nil
			}
			return items, completeSize, nil
		}
		if err != nil {
			return nil, -1, err
		}
		var item session.Item
		if err := json.Unmarshal(line, &item); err != nil {
			return nil, -1, err
		}
		completeSize += int64(len(line))
		items = append(items, item)
	}
}

// UpdateSession implements session.Store.
func (c *conversation) UpdateSession(_ context.Context, s *session.Session) error {
	if s.ID == c.id { // not the session of another agent of the team
		c.save(s)
	}
	return nil
}

// save appends the session's new items to the file. If there are tool calls among them, save returns only after the items are
// on the disk: after a crash of the machine, the agent must still know what its tools may have done. After a failed
// write, save calls onError and writes nothing more.
func (c *conversation) save(s *session.Session) {
	items := s.Messages[c.savedCount:]
	if c.writeFailed || len(items) == 0 {
		return
	}
	if err := c.append(items); err != nil {
		c.writeFailed = true
		c.onError(err)
		return
	}
	c.savedCount += len(items)
}

func (c *conversation) append(items []session.Item) error {
	var b bytes.Buffer
	hasToolCalls := false
	for _, item := range items {
		if item.Message != nil && len(item.Message.Message.ToolDefinitions) > 0 {
			m := *item.Message
			m.Message.ToolDefinitions = nil // the definition has them already
			item.Message = &m
		}
		hasToolCalls = hasToolCalls || item.Message != nil && len(item.Message.Message.ToolCalls) > 0
		line, err := json.Marshal(item)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	f, err := agentfile.OpenAppend(c.path)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err == nil && hasToolCalls {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
