package record

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

// Insert adds the row, see fleet.Tx.
func (t Tx) Insert(r fleet.Row) error {
	switch r := r.(type) {
	case *fleet.Agent:
		return t.insertAgent(r)
	case *fleet.Task:
		return t.DB.InsertTask(r)
	case *fleet.Message:
		return t.insertMessage(r)
	case *fleet.Question:
		return t.insertQuestion(r)
	case *fleet.Request:
		return t.insertRequest(r)
	case *fleet.Session:
		return t.insertSession(r)
	case *fleet.RegisteredTool:
		return t.putTool(r)
	case *fleet.Token:
		return t.insertToken(r)
	case *fleet.Identity:
		return t.insertIdentity(r)
	case *fleet.Resource:
		return t.putResource(r)
	case *fleet.LedgerEntry:
		return t.insertLedgerEntry(r)
	case *fleet.Review:
		return t.insertReview(r)
	case *fleet.Delivery:
		return t.insertDelivery(r)
	}
	return t.DB.Fail(fmt.Errorf("insert: no table for %T", r))
}

// Update writes the row, see fleet.Tx.
func (t Tx) Update(r fleet.Row) error {
	switch r := r.(type) {
	case *fleet.Agent:
		return t.updateAgent(r)
	case *fleet.Task:
		return t.DB.UpdateTask(r)
	case *fleet.Message:
		return t.updateMessage(r)
	case *fleet.Question:
		return t.updateQuestion(r)
	case *fleet.Session:
		return t.updateSession(r)
	case *fleet.Token:
		return t.updateToken(r)
	case *fleet.Identity:
		return t.updateGroups(r)
	case *fleet.Delivery:
		return t.updateDelivery(r)
	}
	return t.DB.Fail(fmt.Errorf("update: rows of %T do not change", r))
}

// Delete removes the row, see fleet.Tx.
func (t Tx) Delete(r fleet.Row) error {
	switch r := r.(type) {
	case *fleet.Task:
		return t.deleteTask(r.ID)
	case *fleet.RegisteredTool:
		return t.deleteTool(r)
	case *fleet.Resource:
		return t.deleteResource(r)
	}
	return t.DB.Fail(fmt.Errorf("delete: rows of %T stay", r))
}

// Put stores a part of a task or an agent, see fleet.Tx.
func (t Tx) Put(id string, p fleet.Part) error {
	switch p := p.(type) {
	case fleet.Payload:
		return t.putPayload(id, p)
	case fleet.PayloadPiece:
		return t.appendPayload(id, p)
	case fleet.Attachments:
		return t.putAttachments(id, p)
	case *fleet.Changes:
		return t.putChanges(id, p)
	case *fleet.TaskChecks:
		return t.putChecks(id, p)
	case *fleet.QueueEntry:
		return t.putQueueEntry(id, p)
	case *fleet.Landing:
		return t.putLanding(id, p)
	case fleet.Labels:
		return t.putLabels(id, p)
	case *fleet.Remains:
		return t.putRemains(id, p)
	}
	return t.DB.Fail(fmt.Errorf("put: no table for %T", p))
}

// putJSON executes a query that stores v as JSON for the task. The last argument of the query is the JSON, after args.
func (t Tx) putJSON(explain func(error) error, query, taskID string, v any, args ...any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return t.DB.Fail(explain(err))
	}
	t.DB.Lock(LockTask, taskID)
	return t.DB.Exec(explain, query, append(args, string(text))...)
}
