package service

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// previewSize is the maximum size of TaskDetails.Preview, in bytes.
const previewSize = 4 << 10

// TaskDetails is a task with the details that a caller requested.
type TaskDetails struct {
	*fleet.Task
	Payload     *fleet.Portion     // nil if it was not requested or does not exist
	Preview     string             // the end of its output and steps; empty if it has ended
	Checks      *fleet.TaskChecks  // nil if it has none
	Attachments []fleet.Attachment // without their contents
	QueueItem   *QueueItem         // nil unless it is pending
	Changes     *fleet.Changes     // nil if they are not known; always nil while it has not ended
	Entry       fleet.QueueEntry   // zero if it has none: it was started directly, and no budget can make it wait
	TreeCostUSD float64            // cost of the task and all tasks below it
}

// ShowTask returns the task with its details, and the requested portion of its payload; a nil payload requests none.
func (s *Service) ShowTask(ctx context.Context, id string, payload *fleet.PortionRequest) (*TaskDetails, error) {
	if err := payload.Validate("payload_"); err != nil {
		return nil, err
	}
	var body []byte
	details, err := viewTask(ctx, s, id, func(tx fleet.ReadTx, t *fleet.Task) (details *TaskDetails, err error) {
		details = &TaskDetails{Task: t}
		if payload != nil {
			if body, err = tx.Payload(t.ID); err != nil {
				return nil, err
			}
		}
		if t.Landing, err = landingOf(tx, t.ID); err != nil {
			return nil, err
		}
		tree, _, err := readTree(tx, t)
		if err != nil {
			return nil, err
		}
		details.TreeCostUSD = tree[0].TreeCostUSD
		if details.Checks, err = tx.Checks(t.ID); err != nil {
			return nil, err
		}
		if t.Options.Attachments > 0 {
			if details.Attachments, err = tx.AttachmentsWithoutContent(t.ID); err != nil {
				return nil, err
			}
		}
		q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}, IncludeEnded: true}))
		if err != nil {
			return nil, err
		}
		if q != nil {
			details.Entry = q.Entry
		}
		if t.Active() {
			details.Preview, err = preview(tx, t.ID)
		} else {
			details.Changes, err = tx.Changes(t.ID)
		}
		return details, err
	})
	if err == nil && body != nil {
		details.Payload, err = payload.Portion(body, "payload_")
	}
	if err == nil && details.Status == fleet.TaskPending {
		details.QueueItem, err = s.queueItem(ctx, details.Task)
	}
	if err != nil {
		return nil, err
	}
	return details, nil
}

// TaskChecks returns the state of the task's checks; nil if the task has none.
func (s *Service) TaskChecks(ctx context.Context, id string) (*fleet.TaskChecks, error) {
	return viewTask(ctx, s, id, func(tx fleet.ReadTx, t *fleet.Task) (*fleet.TaskChecks, error) { return tx.Checks(t.ID) })
}

// preview returns the end of the task's output, with its steps in brackets between the lines, at most previewSize bytes.
func preview(tx fleet.ReadTx, taskID string) (string, error) {
	events, err := tx.Events(fleet.EventFilter{TaskID: taskID, Types: []fleet.EventType{fleet.EventTaskOutput, fleet.EventTaskStep}}, fleet.EventWindow{Newest: true, Limit: 64})
	var b strings.Builder
	for _, e := range events {
		if e.Type == fleet.EventTaskStep { // on a line of its own, so that it cannot be mistaken for the agent's text
			if text := b.String(); text != "" && !strings.HasSuffix(text, "\n") {
				b.WriteByte('\n')
			}
			b.WriteString("[" + e.Text + "]\n")
			continue
		}
		b.WriteString(e.Text)
	}
	return lastBytes(b.String(), previewSize), err
}

// lastBytes returns s if it has at most n bytes. Otherwise it returns the last n bytes without those that are not valid UTF-8.
func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}
