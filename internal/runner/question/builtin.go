package question

import (
	"context"
	"encoding/json"
	"strings"
)

// builtinAskTool is Claude Code's own tool for questions. Claude Code asks for permission to use this tool, and reads the
// answers from the permission.
const builtinAskTool = "AskUserQuestion"

// askBuiltin asks the questions in the tool's input one by one. It returns the answer to the request for permission, or
// nil if the input is invalid.
func askBuiltin(ctx context.Context, runDir string, input json.RawMessage) json.RawMessage {
	var in map[string]json.RawMessage
	var questions []struct {
		Question string `json:"question"`
		Options  []struct {
			Label       string `json:"label"`
			Description string `json:"description"`
		} `json:"options"`
	}
	if json.Unmarshal(input, &in) != nil || json.Unmarshal(in["questions"], &questions) != nil || len(questions) == 0 {
		return nil
	}
	answers := map[string]string{}
	for _, question := range questions {
		q := Question{Kind: KindText, Text: question.Question}
		for _, o := range question.Options {
			q.Options = append(q.Options, o.Label)
			if o.Description != "" {
				q.Text += "\n- " + o.Label + ": " + o.Description
			}
		}
		a, err := Ask(ctx, runDir, q)
		switch {
		case err != nil:
			return denyVerdict("nobody can be asked now: " + err.Error())
		case a.Status != Answered:
			return denyVerdict(a.Reason() + ": decide yourself, or end your task and say what you need to know")
		}
		answers[question.Question] = strings.TrimSpace(a.Answer + "\n" + a.Message)
	}
	in["answers"], _ = json.Marshal(answers) // strings can always be encoded
	return encodeVerdict(map[string]any{"behavior": "allow", "updatedInput": in})
}
