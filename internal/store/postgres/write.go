package postgres

import (
	"fmt"

	"fleet/internal/fleet"
)

func (t *tx) Insert(r fleet.Row) error {
	switch r := r.(type) {
	case *fleet.Agent:
		return t.insertAgent(r)
	case *fleet.Task:
		return t.insertTask(r)
	case *fleet.Message:
		return t.insertMessage(r)
	case *fleet.Question:
		return t.insertQuestion(r)
	case *fleet.Request:
		return t.insertRequest(r)
	case *fleet.Session:
		return t.insertSession(r)
	case *fleet.RegisteredTool:
		return t.insertTool(r)
	case *fleet.Token:
		return t.insertToken(r)
	case *fleet.Identity:
		return t.insertIdentity(r)
	}
	return t.failed(fmt.Errorf("insert: no table for %T", r))
}

func (t *tx) Update(r fleet.Row) error {
	switch r := r.(type) {
	case *fleet.Agent:
		return t.updateAgent(r)
	case *fleet.Task:
		return t.updateTask(r)
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
	}
	return t.failed(fmt.Errorf("update: rows of %T do not change", r))
}

func (t *tx) Delete(r fleet.Row) error {
	switch r := r.(type) {
	case *fleet.Task:
		return t.deleteTask(r.ID)
	case *fleet.RegisteredTool:
		return t.deleteTool(r)
	}
	return t.failed(fmt.Errorf("delete: rows of %T stay", r))
}

func (t *tx) Put(id string, p fleet.Part) error {
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
	case *fleet.Remains:
		return t.putRemains(id, p)
	}
	return t.failed(fmt.Errorf("put: no table for %T", p))
}
