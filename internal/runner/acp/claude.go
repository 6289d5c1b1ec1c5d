package acp

import (
	"encoding/json"
	"strings"
)

// claudeEventMethod is the method of the notifications in which claude-agent-acp passes on events of Claude Code.
const claudeEventMethod = "_claude/sdkMessage"

// claudeEvents selects the events of Claude Code that claude-agent-acp passes on. The protocol has no updates for them.
var claudeEvents = []map[string]string{
	{"type": "result"},
	{"type": "rate_limit_event"},
	{"type": "system", "subtype": "api_retry"},
	{"type": "system", "subtype": "compact_boundary"},
	{"type": "system", "subtype": "hook_response"},
	{"type": "system", "subtype": "model_fallback"},
	{"type": "system", "subtype": "permission_denied"},
	{"type": "system", "subtype": "task_started"},
	{"type": "system", "subtype": "task_notification"},
}

// claudeMeta returns the settings of a session of claude-agent-acp, and nil for another program. Claude Code does not ask before
// calls that its own settings allow, so it must know the rules of the job that deny calls. Suggestions for the next prompt are
// turned off, because they would cost a request to the model in every turn.
func (j *Job) claudeMeta(program string) map[string]any {
	if !strings.HasSuffix(program, "/claude-agent-acp") {
		return nil
	}
	options := map[string]any{"promptSuggestions": false, "forwardSubagentText": true, "includeHookEvents": true}
	if len(j.Policy.Deny) > 0 {
		options["disallowedTools"] = j.Policy.Deny
	}
	return map[string]any{"claudeCode": map[string]any{"options": options, "emitRawSDKMessages": claudeEvents}}
}

// passClaudeEvent passes on an event of Claude Code, unless the program repeats the session's history.
func (c *client) passClaudeEvent(params json.RawMessage) {
	var p struct {
		Message json.RawMessage `json:"message"`
	}
	c.mu.Lock()
	replaying := c.replaying
	c.mu.Unlock()
	if json.Unmarshal(params, &p) == nil && len(p.Message) > 0 && !replaying {
		c.out.write(Line{Type: LineClaude, Update: p.Message})
	}
}
