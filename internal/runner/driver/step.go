package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// maxStepData limits each text in a step, in bytes.
const maxStepData = 16 << 10

// stepPiece returns a piece that shows the step. text describes it for people.
func stepPiece(text string, s *fleet.Step) Piece {
	return Piece{Step: true, Text: oneLine(text), Data: s}
}

// truncate returns a text of the step, shortened to maxStepData bytes and an ellipsis. It sets s.Whole if it shortens the text.
func truncate(s *fleet.Step, text string) string {
	text = cleanString(text)
	if len(text) <= maxStepData {
		return text
	}
	s.Whole = &fleet.Span{} // the follower of the output sets the span
	return strings.ToValidUTF8(text[:maxStepData], "") + "…"
}

// warningStep returns a step that warns the task's owner.
func warningStep(text string) Piece {
	s := &fleet.Step{Type: fleet.StepWarning}
	s.Message = truncate(s, text)
	return stepPiece("warning: "+text, s)
}

// toolCallStep returns a step for a tool call. text describes it for people.
func toolCallStep(text, id, name string, arguments json.RawMessage) Piece {
	s := &fleet.Step{Type: fleet.StepToolCall, ID: id, Name: oneLine(name)}
	s.Arguments = json.RawMessage(cleanString(string(arguments)))
	if len(arguments) == 0 {
		s.Arguments = nil
	} else if !json.Valid(s.Arguments) || len(s.Arguments) > maxStepData {
		s.Arguments = encodeJSON(truncate(s, string(arguments)))
	}
	return stepPiece(text, s)
}

// toolResultStep returns a step for the result of a tool call.
func toolResultStep(id, name, result string, failed bool, duration time.Duration) Piece {
	s := &fleet.Step{Type: fleet.StepToolResult, ID: id, Name: oneLine(cmp.Or(name, "a tool")), IsError: failed, Duration: duration}
	s.Result = truncate(s, result)
	text := s.Name + " answered"
	if failed {
		text = s.Name + " failed"
	}
	if first := strings.TrimSpace(s.Result); first != "" {
		text += ": " + first
	}
	return stepPiece(text, s)
}

// thoughtStep returns a step for a thought of the model.
func thoughtStep(text string) Piece {
	s := &fleet.Step{Type: fleet.StepThinking}
	s.Message = truncate(s, text)
	return stepPiece("thinking: "+strings.TrimSpace(text), s)
}

// deniedStep returns a step for a tool call that was denied.
func deniedStep(id, name, why string) Piece {
	return stepPiece("denied: "+name+": "+why, &fleet.Step{Type: fleet.StepDenied, ID: id, Name: oneLine(name), Message: reasonText(why)})
}

// fileEditStep returns a step for a change of a file. patch is empty if it is unknown.
func fileEditStep(id, path, patch string) Piece {
	s := &fleet.Step{Type: fleet.StepFileEdit, ID: id, Path: oneLine(path)}
	s.Patch = truncate(s, patch)
	return stepPiece("changed "+path, s)
}

// todoListStep returns a step for the agent's list of things to do.
func todoListStep(items []fleet.TodoItem) Piece {
	done := 0
	for i := range items {
		items[i].Text = oneLine(items[i].Text)
		if items[i].Status == "completed" {
			done++
		}
	}
	s := &fleet.Step{Type: fleet.StepTodoList, Items: items[:min(len(items), maxTodoItems)]}
	return stepPiece(fmt.Sprintf("to do: %d of %d done", done, len(items)), s)
}

// maxTodoItems limits the length of a list of things to do.
const maxTodoItems = 100

// subagentTextStep returns a step for a text that a subagent wrote. agent is the type of the subagent; it may be empty.
func subagentTextStep(agent, text string) Piece {
	s := &fleet.Step{Type: fleet.StepText}
	s.Message = truncate(s, strings.TrimRight(text, "\n"))
	return stepPiece(cmp.Or(agent, "a subagent")+": "+s.Message, s)
}

// usageStep returns a step for the usage of an answered request to the model, or of a turn.
func usageStep(u fleet.RequestUsage) Piece {
	return stepPiece(fmt.Sprintf("%s: %d tokens in, %d out", cmp.Or(u.Model, "the model"), u.AllInput(), u.Output), &fleet.Step{Type: fleet.StepUsage, Usage: &u})
}
