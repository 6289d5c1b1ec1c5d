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

// step returns a piece that shows the step. text describes it for people.
func step(text string, s *fleet.Step) Piece {
	return Piece{Step: true, Text: oneLine(valid(text)), Data: s}
}

// cut shortens a text of the step to maxStepData bytes. A shortened text ends with an ellipsis.
func cut(s *fleet.Step, text string) string {
	text = valid(text)
	if len(text) <= maxStepData {
		return text
	}
	s.Whole = &fleet.Span{} // the reader of the output knows where it is
	return strings.ToValidUTF8(text[:maxStepData], "") + "…"
}

// warning returns a step that tells the task's owner what does not work.
func warning(text string) Piece {
	s := &fleet.Step{Type: fleet.StepWarning}
	s.Message = cut(s, text)
	return step("warning: "+text, s)
}

// toolCall returns a step for a tool call. text describes it for people.
func toolCall(text, id, name string, arguments json.RawMessage) Piece {
	s := &fleet.Step{Type: fleet.StepToolCall, ID: id, Name: oneLine(valid(name))}
	s.Arguments = json.RawMessage(valid(string(arguments)))
	if len(arguments) == 0 {
		s.Arguments = nil
	} else if !json.Valid(s.Arguments) || len(s.Arguments) > maxStepData {
		s.Arguments, _ = json.Marshal(cut(s, string(arguments))) // strings can always be encoded
	}
	return step(text, s)
}

// toolResult returns a step for the result of a tool call.
func toolResult(id, name, result string, failed bool, took time.Duration) Piece {
	if name == "" {
		name = "a tool"
	}
	s := &fleet.Step{Type: fleet.StepToolResult, ID: id, Name: oneLine(valid(name)), IsError: failed, Duration: took}
	s.Result = cut(s, result)
	text := s.Name + " answered"
	if failed {
		text = s.Name + " failed"
	}
	if first := strings.TrimSpace(s.Result); first != "" {
		text += ": " + first
	}
	return step(text, s)
}

// thought returns a step for a thought of the model.
func thought(text string) Piece {
	s := &fleet.Step{Type: fleet.StepThinking}
	s.Message = cut(s, text)
	return step("thinking: "+strings.TrimSpace(text), s)
}

// denied returns a step for a tool call that was denied.
func denied(id, name, why string) Piece {
	return step("denied: "+name+": "+why, &fleet.Step{Type: fleet.StepDenied, ID: id, Name: oneLine(valid(name)), Message: shorten(valid(why), maxReason)})
}

// fileEdit returns a step for a change of a file. patch is empty if it is unknown.
func fileEdit(id, path, patch string) Piece {
	s := &fleet.Step{Type: fleet.StepFileEdit, ID: id, Path: oneLine(valid(path))}
	s.Patch = cut(s, patch)
	return step("changed "+path, s)
}

// todoList returns a step for the agent's list of things to do.
func todoList(items []fleet.TodoItem) Piece {
	done := 0
	for i := range items {
		items[i].Text = oneLine(valid(items[i].Text))
		if items[i].Status == "completed" {
			done++
		}
	}
	s := &fleet.Step{Type: fleet.StepTodoList, Items: items[:min(len(items), maxTodoItems)]}
	return step(fmt.Sprintf("to do: %d of %d done", done, len(items)), s)
}

// maxTodoItems limits the length of a list of things to do.
const maxTodoItems = 100

// subagentText returns a step for a text that a subagent wrote.
func subagentText(agent, text string) Piece {
	s := &fleet.Step{Type: fleet.StepText}
	s.Message = cut(s, strings.TrimRight(text, "\n"))
	return step(cmp.Or(agent, "a subagent")+": "+s.Message, s)
}

// usageStep returns a step for the usage of an answered request to the model.
func usageStep(u fleet.StepUsed) Piece {
	return step(fmt.Sprintf("%s: %d tokens in, %d out", cmp.Or(u.Model, "the model"), u.All(), u.Output), &fleet.Step{Type: fleet.StepUsage, Usage: &u})
}
