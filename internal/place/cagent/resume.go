//go:build cgo

package cagent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/session"

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
	// From is the number of items in the conversation before the prompt. It is nil if the run has not begun to use the
	// conversation.
	From     *int           `json:"from,omitempty"`
	Spent    fleet.Outcome  `json:"spent"`              // has the usage and the cost of all requests that were answered
	Reported *fleet.Outcome `json:"reported,omitempty"` // what the agent has reported
	Paused   bool           `json:"paused,omitempty"`   // the server was shut down; otherwise it has crashed
	Crashes  int            `json:"crashes,omitempty"`
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

// answered reports whether the conversation ends with the agent's answer.
func answered(items []session.Item) bool {
	if len(items) == 0 {
		return false
	}
	m := items[len(items)-1].Message
	return m != nil && m.Message.Role == chat.MessageRoleAssistant && len(m.Message.ToolCalls) == 0 && strings.TrimSpace(m.Message.Content) != ""
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

// resumed returns the run of the task in this process, or nil if it is not there. If the run is paused, resumed resumes it.
func (b *Place) resumed(ctx context.Context, x *member, taskID string) (*live, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.paused != taskID {
		return x.live(taskID), nil
	}
	if x.stopped {
		return nil, b.settle(x, errStopped)
	}
	rec, err := x.pausedRecord()
	if err != nil {
		return nil, err
	}
	if !rec.Paused {
		rec.Crashes++
	}
	if rec.Paused = false; rec.Crashes > maxCrashes {
		return nil, b.settle(x, fmt.Errorf("the server has crashed %d times during the task; what the agent had done by then stays done", rec.Crashes))
	}
	l, err := b.start(x, func() (*live, error) { return b.open(context.WithoutCancel(ctx), x, rec) })
	if err == nil {
		x.paused = ""
		x.home.log(b.config.Now(), "task %s: resumed", taskID)
	}
	return l, err
}

func (x *member) pausedRecord() (rec runRecord, err error) {
	if err := x.runDir(x.paused).read("run.json", &rec); err != nil {
		return rec, hostError("cannot read the run's record", err)
	}
	return rec, nil
}

// settle ends the agent's paused run for the reason why, if there is one. What the agent has reported counts all the same.
// x.mu must be held.
func (b *Place) settle(x *member, why error) error {
	if x.paused == "" {
		return nil
	}
	rec, err := x.pausedRecord()
	if err != nil {
		return err
	}
	o := fleet.Outcome{Status: fleet.TaskFailed, Reason: why.Error()}
	if stops(why) {
		o.Status = fleet.TaskStopped
	}
	if rec.Reported != nil {
		o = *rec.Reported
	}
	o.Usage, o.CostUSD, o.Turns = rec.Spent.Usage, rec.Spent.CostUSD, rec.Spent.Turns
	if err := x.runDir(x.paused).write("outcome.json", o); err != nil {
		return hostError("cannot write the run's outcome", err)
	}
	x.home.log(b.config.Now(), "task %s: %s %s", x.paused, o.Status, o.Reason)
	x.paused = ""
	return nil
}
