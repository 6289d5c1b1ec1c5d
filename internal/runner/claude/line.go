package claude

import "encoding/json"

// line is a line of Claude Code, with the fields that the conversation depends on.
type line struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`

	// A request of Claude Code, its withdrawal, or the answer to a request of Fleet.
	RequestID string  `json:"request_id"`
	Request   request `json:"request"`
	Response  struct {
		RequestID string `json:"request_id"`
	} `json:"response"`

	// The state of a message.
	CommandUUID string `json:"command_uuid"`
	State       string `json:"state"`
	UUID        string `json:"uuid"`
	IsReplay    bool   `json:"isReplay"`

	// The result of a turn.
	MessageUUIDs []string `json:"user_message_uuids"` // the messages that the turn has taken

	// Work besides the turn: subagents and commands.
	Tasks []struct {
		ID string `json:"task_id"`
	} `json:"tasks"`
	TaskID   string `json:"task_id"`
	TaskType string `json:"task_type"`
	Patch    struct {
		Status string `json:"status"`
	} `json:"patch"`

	// A message, or an event of the model's API. Parent is the id of the tool call that started the subagent; empty for the agent itself.
	Parent  string `json:"parent_tool_use_id"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Event streamEvent `json:"event"`

	// A request to the model that is repeated.
	Attempt     int `json:"attempt"`
	ErrorStatus int `json:"error_status"`

	Limit subscriptionLimit `json:"rate_limit_info"`
}

// subscriptionLimit is the state of the limits of a subscription.
type subscriptionLimit struct {
	Status  string `json:"status"`
	Overage bool   `json:"isUsingOverage"` // the subscription pays for what exceeds its windows
}

// isUsedUp reports whether the subscription refuses requests until a window ends.
func (l subscriptionLimit) isUsedUp() bool { return l.Status == "rejected" && !l.Overage }

// request is a request of Claude Code.
type request struct {
	Subtype     string          `json:"subtype"`
	Tool        string          `json:"tool_name"`
	Input       json.RawMessage `json:"input"`
	Suggestions []suggestion    `json:"permission_suggestions"`
	Server      string          `json:"server_name"`
	Message     json.RawMessage `json:"message"`
}

// suggestion is a change of Claude Code's permissions that would allow a call.
type suggestion struct {
	Type     string `json:"type"`
	Behavior string `json:"behavior"`
	Rules    []struct {
		Tool    string `json:"toolName"`
		Content string `json:"ruleContent"`
	} `json:"rules"`
}

// rules returns the suggested rules that allow calls.
func (r request) rules() (all []string) {
	for _, s := range r.Suggestions {
		if s.Type != "addRules" || s.Behavior != "allow" {
			continue
		}
		for _, rule := range s.Rules {
			if rule.Content != "" {
				rule.Tool += "(" + rule.Content + ")"
			}
			all = append(all, rule.Tool)
		}
	}
	return all
}

// controlResponse returns the answer to the request with the id.
func controlResponse(id string, response any) any {
	return map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": id, "response": response}}
}

// controlError returns an answer that refuses the request with the id.
func controlError(id, why string) any {
	return map[string]any{"type": "control_response", "response": map[string]any{"subtype": "error", "request_id": id, "error": why}}
}

// controlRequest returns a request to Claude Code.
func controlRequest(id string, request map[string]any) any {
	return map[string]any{"type": "control_request", "request_id": id, "request": request}
}

// userMessage returns a message of the user.
func userMessage(uuid, text string, images ...any) any {
	content := append(images, map[string]any{"type": "text", "text": text})
	return map[string]any{
		"type": "user", "message": map[string]any{"role": "user", "content": content}, "parent_tool_use_id": nil, "session_id": "", "uuid": uuid,
	}
}
