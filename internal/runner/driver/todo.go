package driver

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// todoItems returns the list of things to do in the arguments of a tool call. It is empty if the arguments have none. Claude Code
// and OpenCode report their lists only in this way.
func todoItems(arguments json.RawMessage) []fleet.TodoItem {
	var list struct {
		Todos todoEntries `json:"todos"`
	}
	if json.Unmarshal(arguments, &list) != nil {
		return nil
	}
	return list.Todos.items()
}

// todoEntries is a list of things to do, as in plans of the Agent Client Protocol and in the arguments of tools.
type todoEntries []struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

func (t todoEntries) items() []fleet.TodoItem {
	items := make([]fleet.TodoItem, len(t))
	for i, e := range t {
		items[i] = fleet.TodoItem{Text: e.Content, Status: oneLine(e.Status)}
	}
	return items
}
