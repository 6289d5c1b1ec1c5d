package question

import (
	"context"
	"encoding/json"
	"fmt"
)

// RequestPermission answers Claude Code's request for permission to use the tool, in Claude Code's format. runDir is the directory of
// the run, and rules are the rules that Claude Code suggests. It waits until the rules of the run or a person has decided.
func RequestPermission(ctx context.Context, runDir, tool string, input json.RawMessage, rules []string) json.RawMessage {
	if tool == "" {
		return denyVerdict("the request for permission was not understood")
	}
	if tool == builtinAskTool {
		if v := askBuiltin(ctx, runDir, input); v != nil {
			return v
		}
	}
	answer, err := Ask(ctx, runDir, Question{Kind: KindPermission, Tool: tool, Input: input, Rules: rules})
	switch {
	case err != nil:
		return denyVerdict(fmt.Sprintf("nobody can be asked for permission now: %v", err))
	case !answer.Allowed():
		return denyVerdict(answer.Reason())
	}
	return encodeVerdict(map[string]any{"behavior": "allow"})
}

func denyVerdict(why string) json.RawMessage {
	return encodeVerdict(map[string]any{"behavior": "deny", "message": why})
}

func encodeVerdict(v map[string]any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`{"behavior":"deny","message":"the answer could not be written"}`)
	}
	return b
}
