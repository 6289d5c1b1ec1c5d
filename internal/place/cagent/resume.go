//go:build cgo

package cagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/session"
	"github.com/docker/cagent/pkg/tools/builtin"

	"fleet/internal/fleet"
)

// activeFile is the file in an agent's home that contains the id of the agent's last task.
const activeFile = "active.json"

// maxCrashes is how often a server may crash during a run. The run may be the reason, so after the next crash it fails.
const maxCrashes = 3

// runRecord is the record of a run in the server's process. It has what the next server needs to resume the run.
type runRecord struct {
	TaskID  string        `json:"task_id"`
	Timeout time.Duration `json:"timeout"`
	Started time.Time     `json:"started"`
	Prompt  string        `json:"prompt"`

	Options fleet.TaskOptions `json:"options,omitzero"`

	// From is the number of items in the conversation before the prompt. It is nil if the run has not begun to use the
	// conversation.
	From     *int           `json:"from,omitempty"`
	Spent    fleet.Outcome  `json:"spent"`              // the usage and the cost; its turns are the requests that were answered
	Reported *fleet.Outcome `json:"reported,omitempty"` // what the agent has reported
	Paused   bool           `json:"paused,omitempty"`   // the server was shut down; otherwise it has crashed
	Crashes  int            `json:"crashes,omitempty"`

	crashed bool // the last server has crashed
}

// ledger keeps the record of a run. The ledger of a run in its own process writes no file, because such a run continues
// without a server.
type ledger struct {
	home home // "": no file is written

	mu     sync.Mutex
	record runRecord
}

// change changes the record and writes it.
func (l *ledger) change(f func(*runRecord)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.record)
	if l.home == "" {
		return nil
	}
	return l.home.write("run.json", l.record)
}

// read returns the record.
func (l *ledger) read() runRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record
}

// from returns the number of items in the conversation before the run's prompt, and whether the run is resumed. items is
// the number of items now.
func (l *ledger) from(items int) (from int, resumed bool, err error) {
	if rec := l.read(); rec.From != nil {
		return min(*rec.From, items), true, nil
	}
	if err := l.change(func(r *runRecord) { r.From = &items }); err != nil {
		return 0, false, hostError("cannot write the run's record", err)
	}
	return items, false, nil
}

// findPaused sets x.paused if an earlier server has left a run of the agent.
func (x *member) findPaused() {
	var id string
	if x.own || x.home.read(activeFile, &id) != nil {
		return
	}
	if h := x.runDir(id); h.exists("run.json") && !h.exists("outcome.json") {
		x.paused = id
	}
}

// resumed returns the run of the task in this process, or nil if it is not there. It resumes the agent's paused run.
func (b *Place) resumed(ctx context.Context, x *member, taskID string) (*live, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := b.resume(ctx, x); err != nil {
		return nil, err
	}
	return x.live(taskID), nil
}

// resume resumes the agent's paused run, if there is one. If the agent is stopped, or if the server has crashed too often, the
// run only ends. x.mu must be held.
func (b *Place) resume(ctx context.Context, x *member) error {
	if x.paused == "" {
		return nil
	}
	var rec runRecord
	err := x.runDir(x.paused).read("run.json", &rec)
	if errors.As(err, new(*fs.PathError)) {
		return hostError("cannot read the run's record", err)
	}
	if err != nil { // Follow reports that the run has failed
		b.config.Logger.ErrorContext(ctx, "the record of a run is damaged", "task", x.paused, "error", err)
		x.paused = ""
		return nil
	}
	if rec.crashed = !rec.Paused; rec.crashed {
		rec.Crashes++
	}
	rec.Paused = false
	_, err = b.start(x, func() (*live, error) {
		l, err := b.open(context.WithoutCancel(ctx), x, rec)
		switch {
		case err != nil:
			return nil, err
		case x.stopped:
			l.conclude(errStopped)
		case rec.Crashes > maxCrashes:
			l.conclude(fmt.Errorf("the server has crashed %d times during the task; what the agent had done by then stays done", rec.Crashes))
		}
		return l, nil
	})
	if err == nil {
		x.home.log(b.config.Now(), "task %s: resumed", x.paused)
		x.paused = ""
	}
	return err
}

// answered reports whether the conversation ends with the agent's answer.
func answered(items []session.Item) bool {
	if len(items) == 0 {
		return false
	}
	m := items[len(items)-1].Message
	return m != nil && m.Message.Role == chat.MessageRoleAssistant && len(m.Message.ToolCalls) == 0 && strings.TrimSpace(m.Message.Content) != ""
}

// handedOff is part of the result of a call with which an agent has handed the conversation over to another one.
const handedOff = " handed off the conversation to you."

// speaker returns the name of the agent that continues the conversation, or "" if no agent has said anything.
func speaker(items []session.Item) (name string) {
	next := map[string]string{} // the agents that the latest calls name, by the id of the call
	for _, item := range items {
		m := item.Message
		switch {
		case m == nil:
		case m.Message.Role == chat.MessageRoleAssistant:
			name = m.AgentName
			clear(next)
			for _, c := range m.Message.ToolCalls {
				var args builtin.HandoffArgs
				if c.Function.Name == builtin.ToolNameHandoff && json.Unmarshal([]byte(c.Function.Arguments), &args) == nil {
					next[c.ID] = args.Agent
				}
			}
		case m.Message.Role == chat.MessageRoleTool && strings.Contains(m.Message.Content, handedOff):
			name = cmp.Or(next[m.Message.ToolCallID], name)
		}
	}
	return name
}

// calls returns the number of tool calls in the conversation.
func calls(items []session.Item) (n int64) {
	for _, item := range items {
		if m := item.Message; m != nil {
			n += int64(len(m.Message.ToolCalls))
		}
	}
	return n
}
