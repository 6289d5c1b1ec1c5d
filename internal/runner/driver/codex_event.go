package driver

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"

	"fleet/internal/fleet"
)

// codexEvent is a line of the output of `codex exec --json`.
type codexEvent struct {
	Type     string     `json:"type"`
	ThreadID string     `json:"thread_id"`
	Message  string     `json:"message"`
	Item     *codexItem `json:"item"`
	Error    struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage *codexUsage `json:"usage"` // usage of the whole conversation
}

type codexUsage struct {
	Input      int64 `json:"input_tokens"`
	CacheRead  int64 `json:"cached_input_tokens"`      // a part of Input
	CacheWrite int64 `json:"cache_write_input_tokens"` // a part of Input
	Output     int64 `json:"output_tokens"`
}

// codexItem is a part of a turn: a message, a thought, a tool call, a list of things to do, or an error.
type codexItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Message string `json:"message"`
	Status  string `json:"status"`

	Command string `json:"command"`
	Output  string `json:"aggregated_output"`
	Changes []struct {
		Path string `json:"path"`
	} `json:"changes"`
	Items []struct {
		Text      string `json:"text"`
		Completed bool   `json:"completed"`
	} `json:"items"` // of a todo_list
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Query     string          `json:"query"`
	Result    *struct {
		Content json.RawMessage `json:"content"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// todoItems returns the items of the agent's list of things to do.
func (i *codexItem) todoItems() []fleet.TodoItem {
	items := make([]fleet.TodoItem, len(i.Items))
	for n, t := range i.Items {
		items[n] = fleet.TodoItem{Text: t.Text, Status: "pending"}
		if t.Completed {
			items[n].Status = "completed"
		}
	}
	return items
}

// tool describes the item as a tool call: its name, a short description, and its arguments.
func (i *codexItem) tool() (name, text string, input json.RawMessage) {
	switch i.Type {
	case "command_execution":
		command := shellScript(i.Command)
		return "shell", "shell: " + command, encodeJSON(map[string]string{"command": command})
	case "file_change":
		var paths, names []string
		for _, c := range i.Changes {
			paths, names = append(paths, c.Path), append(names, filepath.Base(c.Path))
		}
		return "edit", "edit: " + strings.Join(names, ", "), encodeJSON(map[string][]string{"paths": paths})
	case "mcp_tool_call":
		name = i.Server + "." + i.Tool
		return name, toolCallText(name, i.Arguments), i.Arguments
	case "web_search":
		return "web_search", "web_search: " + i.Query, encodeJSON(map[string]string{"query": i.Query})
	}
	name = cmp.Or(i.Tool, i.Type)
	return name, name, i.Arguments
}

var shellCommandPattern = regexp.MustCompile(`(?s)^\S*sh -l?c (.+)$`)

// shellScript returns the script in a command such as bash -lc 'ls'. It returns any other command unchanged.
func shellScript(command string) string {
	m := shellCommandPattern.FindStringSubmatch(command)
	if m == nil {
		return command
	}
	if s, ok := strings.CutPrefix(m[1], "'"); ok {
		if s, ok := strings.CutSuffix(s, "'"); ok && !strings.Contains(s, "'") {
			return s
		}
	}
	if s, ok := strings.CutPrefix(m[1], `"`); ok {
		if s, ok := strings.CutSuffix(s, `"`); ok && !strings.ContainsAny(s, "\"\\$`") {
			return s
		}
	}
	return m[1]
}

// result returns the result of a tool call, or its error.
func (i *codexItem) result() string {
	switch {
	case i.Error != nil:
		return i.Error.Message
	case i.Result != nil:
		return contentText(i.Result.Content)
	}
	return i.Output
}
