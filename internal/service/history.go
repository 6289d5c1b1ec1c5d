package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// History is a page of tasks, newest first.
type History struct {
	Tasks                        []*fleet.Task
	Total, Page, PageSize, Pages int
	More                         bool   // there may be more tasks than Total; Pages is computed from Total
	Next                         string // cursor of the next page; "" on the last one
}

// TaskHistory returns a page of the agent's tasks. If no existing agent has the name, it returns the tasks of the agent of
// that name that was deleted last. A page beyond the end is empty.
func (s *Service) TaskHistory(ctx context.Context, ref string, r fleet.PageRequest) (*History, error) {
	h, offset, count, err := newHistory(r)
	if err != nil {
		return nil, err
	}
	uid, err := s.lastAgentUID(ctx, ref, fleet.AccessView)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		h.Tasks, h.Total, err = tx.Tasks(uid, count, offset)
		return err
	})
	h.number(offset)
	return h, err
}

// newHistory returns the requested page without its tasks. The page's tasks are count tasks after the first offset ones.
func newHistory(r fleet.PageRequest) (h *History, offset, count int, err error) {
	page, size, err := r.Resolve(fleet.DefaultPageSize)
	if err != nil {
		return nil, 0, 0, err
	}
	if offset, count, err = r.Window(fleet.DefaultPageSize); err != nil {
		return nil, 0, 0, err
	}
	if r.Cursor != "" {
		page = offset/size + 1
	}
	return &History{Page: page, PageSize: size}, offset, count, nil
}

// number sets the fields of h that depend on the total.
func (h *History) number(offset int) {
	h.Next = fleet.NextCursor(offset, len(h.Tasks), h.Total)
	h.Pages = (h.Total + h.PageSize - 1) / h.PageSize
}

// previewSize is how much of a running task's output is shown, in bytes.
const previewSize = 4 << 10

// Shown is a task with the details that a caller requested.
type Shown struct {
	*fleet.Task
	Payload     *fleet.Portion     // nil if it was not requested or does not exist
	Preview     string             // end of its output while it is running
	Checks      *fleet.TaskChecks  // nil if it has none
	Attachments []fleet.Attachment // without their contents
	Changes     *fleet.Changes     // nil if they are not known; always nil while it is running
}

// ShowTask returns the task and the requested portion of its payload; nil requests none.
func (s *Service) ShowTask(ctx context.Context, id string, payload *fleet.PortionRequest) (*Shown, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, errNoTaskID()
	}
	if err := payload.Check("payload_"); err != nil {
		return nil, err
	}
	shown := &Shown{}
	var body []byte
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if shown.Task, err = s.task(tx, p, id, fleet.AccessView); err != nil {
			return err
		}
		if payload != nil {
			if body, err = tx.Payload(shown.ID); err != nil {
				return err
			}
		}
		if shown.Checks, err = tx.Checks(shown.ID); err != nil {
			return err
		}
		if shown.Options.Attachments > 0 {
			if shown.Attachments, err = tx.Attachments(shown.ID, false); err != nil {
				return err
			}
		}
		if !shown.Active() {
			shown.Changes, err = tx.Changes(shown.ID)
			return err
		}
		shown.Preview, err = preview(tx, shown.ID)
		return err
	})
	if err == nil && body != nil {
		shown.Payload, err = payload.Of(body, "payload_")
	}
	if err != nil {
		return nil, err
	}
	return shown, nil
}

// preview returns the end of the task's output.
func preview(tx fleet.ReadTx, taskID string) (string, error) {
	events, err := tx.LastEvents(fleet.EventFilter{TaskID: taskID, Types: []fleet.EventType{fleet.EventTaskOutput, fleet.EventTaskStep}}, 64)
	var b strings.Builder
	for _, e := range events {
		if e.Type == fleet.EventTaskStep { // on a line of its own, so that it cannot be mistaken for the agent's text
			if said := b.String(); said != "" && !strings.HasSuffix(said, "\n") {
				b.WriteByte('\n')
			}
			b.WriteString("[" + e.Text + "]\n")
			continue
		}
		b.WriteString(e.Text)
	}
	return tail(b.String(), previewSize), err
}

// errNoTaskID returns the error for a call that lacks the id of its task.
func errNoTaskID() *fleet.Error {
	return fleet.Invalid(fleet.ReasonInvalidArgument, "task_id", "task_id is required").Next("{start_agent_task} and {list_tasks} give ids")
}

// MinTaskPrefix is the shortest prefix of a task's id that is accepted, in bytes.
const MinTaskPrefix = 6

// task returns the task with the id. id may be a prefix if p may see only one task whose id begins with it. The error is
// PERMISSION_DENIED if p may see the task but does not have the needed access to its agent.
func (s *Service) task(tx fleet.ReadTx, p fleet.Principal, id string, needed fleet.Access) (*fleet.Task, error) {
	t, err := s.seenTask(tx, p, id)
	if err != nil || p.OwnsAll(t.Owner) {
		return t, err
	}
	access, err := accessTo(tx, p, t.Owner, t.AgentUID)
	if err == nil && access == fleet.AccessNone { // the prefix matched a task of a share that has ended meanwhile
		err = taskNotFound(id)
	}
	if err == nil {
		err = requireLevel(access, needed, t.AgentName, t.Owner)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (s *Service) seenTask(tx fleet.ReadTx, p fleet.Principal, id string) (*fleet.Task, error) {
	t, err := tx.Task(id)
	if err != nil {
		return nil, err
	}
	if t != nil {
		if access, err := accessTo(tx, p, t.Owner, t.AgentUID); err != nil || access != fleet.AccessNone {
			return t, err
		}
	}
	if len(id) >= MinTaskPrefix && len(id) <= MaxRequestID && utf8.ValidString(id) {
		f := fleet.TaskFilter{Projects: p.Projects}
		if !p.Admin() {
			f.Owner, f.Shared = p.Name, s.snap.Shares().With(p)
		}
		ids, err := tx.TaskIDs(id, f, 2)
		switch {
		case err != nil:
			return nil, err
		case len(ids) == 1:
			if t, err = tx.Task(ids[0]); err != nil || t != nil {
				return t, err
			}
		case len(ids) > 1:
			return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "task_id", "the ids of several tasks begin with %q: give more of the id", id)
		}
	}
	return nil, taskNotFound(id)
}

func taskNotFound(id string) *fleet.Error {
	return fleet.Errorf(fleet.ReasonTaskNotFound, "task %q not found", fleet.Shorten(id, 60)).With("task_id", fleet.Shorten(id, 60)).Next("{list_tasks} shows the tasks and their ids")
}

// tail returns at most the last n bytes of s, beginning with a whole character.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// These limit WaitTasks.
const (
	MaxWait      = 50 * time.Second
	MaxWaitTasks = 100
)

// Until says when a wait for tasks is over; the zero value means when all tasks have ended.
type Until struct {
	Any      bool // when any task has ended
	Question bool // also when any task waits for an answer
}

// WaitTasks waits as until says, at most d. It returns the tasks in the order of ids, and whether the condition was
// met.
func (s *Service) WaitTasks(ctx context.Context, ids []string, until Until, d time.Duration) ([]*fleet.Task, bool, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(ids) == 0 || len(ids) > MaxWaitTasks {
		return nil, false, fleet.Invalid(fleet.ReasonInvalidArgument, "task_ids", "task_ids has %d ids: give 1 to %d", len(ids), MaxWaitTasks)
	}
	if d < 0 || d > MaxWait {
		return nil, false, fleet.Invalid(fleet.ReasonInvalidArgument, "timeout_seconds", "timeout_seconds is %d: give 0 to %d, and call again to wait on", int(d.Seconds()), int(MaxWait.Seconds()))
	}
	signal, cancel := s.store.Subscribe()
	defer cancel()
	timer := time.NewTimer(d)
	defer timer.Stop()
	tasks := make([]*fleet.Task, len(ids))
	if err := s.snap.RefreshOwn(ctx); err != nil {
		return nil, false, err
	}
	for over := d == 0; ; {
		shares := s.snap.Shares() // if they change, the caller may no longer see a task
		err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
			for i, id := range ids {
				if tasks[i] != nil && !tasks[i].Active() {
					continue
				}
				if tasks[i] != nil {
					id = tasks[i].ID // ids may be prefixes, which later tasks can share
				}
				if tasks[i], err = s.task(tx, p, id, fleet.AccessView); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		ended := countEnded(tasks)
		done := ended == len(ids) || until.Any && ended > 0 || until.Question && countWaiting(tasks) > 0
		if done || over {
			return tasks, done, nil
		}
		fleet.ReleaseSlot(ctx)
		for changed := false; !changed && !over; {
			select {
			case <-signal:
			case <-timer.C:
				over = true
			case <-ctx.Done():
				return nil, false, ctx.Err()
			}
			if changed, err = s.anyChanged(ctx, tasks, until.Question); err != nil {
				return nil, false, err
			}
			changed = changed || s.snap.Shares() != shares
		}
	}
}

// anyChanged reports whether one of the active tasks has ended or, with questions set, waits for an answer. It uses the
// snapshot, because callers call it after every commit and few commits end one of these tasks.
func (s *Service) anyChanged(ctx context.Context, tasks []*fleet.Task, questions bool) (bool, error) {
	var uids []string
	for _, t := range tasks {
		uids = append(uids, t.AgentUID)
	}
	if err := s.snap.RefreshAgents(ctx, uids...); err != nil {
		return false, err
	}
	return slices.ContainsFunc(tasks, func(t *fleet.Task) bool {
		if !t.Active() {
			return false
		}
		v := s.snap.Get(t.AgentUID)
		return v == nil || v.Task == nil || v.Task.ID != t.ID || questions && v.Task.Waiting > 0
	}), nil
}

func countWaiting(tasks []*fleet.Task) (waiting int) {
	for _, t := range tasks {
		if t.Active() && t.Waiting > 0 {
			waiting++
		}
	}
	return waiting
}

func countEnded(tasks []*fleet.Task) (ended int) {
	for _, t := range tasks {
		if !t.Active() {
			ended++
		}
	}
	return ended
}

// WaitMessage describes the progress of the tasks for people.
func WaitMessage(tasks []*fleet.Task, done bool) string {
	ended := countEnded(tasks)
	text := fmt.Sprintf("%d of %d tasks have ended", ended, len(tasks))
	if n := countWaiting(tasks); n > 0 {
		text += fmt.Sprintf(", %d wait for an answer (list_questions)", n)
	}
	if !done {
		text += ": call wait_tasks again to wait on"
	}
	return text
}
