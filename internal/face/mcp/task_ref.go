package mcp

import (
	"context"
	"slices"
	"strings"

	fleetv1 "fleet/gen/fleet/v1"
)

// taskRef identifies a task of MCP: by the tasks of Fleet that belong to it, and by the state that the client waits for. The id
// contains both, so nothing has to be stored.
type taskRef struct {
	ids             []string
	waitsForLanding bool // the client waits until the work of the tasks has landed or cannot land, not until the tasks have ended
}

// Ids of MCP tasks begin with these prefixes unless they are the id of one Fleet task.
const (
	prefixTasks   = "tasks."
	prefixLanding = "landing."
)

// maxTaskID is the length of the longest id of an MCP task, in bytes.
const maxTaskID = 1024

// String returns the id.
func (r taskRef) String() string {
	ids := strings.Join(r.ids, ".")
	switch {
	case r.waitsForLanding:
		return prefixLanding + ids
	case len(r.ids) != 1:
		return prefixTasks + ids
	}
	return ids
}

// readRef returns the taskRef of the id. The id is not valid if it is too long, or if the id of a task in it is empty.
func readRef(id string) (r taskRef, valid bool) {
	if list, ok := strings.CutPrefix(id, prefixLanding); ok {
		r = taskRef{ids: strings.Split(list, "."), waitsForLanding: true}
	} else if list, ok := strings.CutPrefix(id, prefixTasks); ok {
		r = taskRef{ids: strings.Split(list, ".")}
	} else {
		r = taskRef{ids: []string{id}}
	}
	return r, len(id) <= maxTaskID && !slices.Contains(r.ids, "")
}

// details returns the current state of the tasks that r names. If r waits for a landing and another task continues the work of
// a task, details returns that other task instead.
func (t tasks) details(ctx context.Context, r taskRef) ([]*fleetv1.TaskDetail, error) {
	all := make([]*fleetv1.TaskDetail, len(r.ids))
	for i, id := range r.ids {
		for id != "" {
			resp, err := t.api.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: id})
			if err != nil {
				return nil, err
			}
			d := resp.GetTask()
			id, all[i] = "", d
			if l := d.GetLanding(); r.waitsForLanding && l.GetState() != fleetv1.Landing_landed && l.GetState() != fleetv1.Landing_queued {
				id = l.GetNextTaskId()
			}
		}
	}
	return all, nil
}
