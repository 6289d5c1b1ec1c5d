//go:build cgo

package run

import (
	"fmt"
	"slices"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/tools"
)

// completeToolResults adds a result for each tool call without one: the library skips calls of unknown tools, and other
// calls were interrupted. It removes results without a call. APIs refuse a conversation in which a call has no result.
func completeToolResults(messages []chat.Message) []chat.Message {
	var out []chat.Message
	var open []tools.ToolCall
	answerOpenCalls := func() {
		for _, c := range open {
			out = append(out, chat.Message{
				Role: chat.MessageRoleTool, ToolCallID: c.ID,
				Content: fmt.Sprintf("The tool %q gave no answer: there is no such tool, or the call was interrupted, and may have had an effect all the same.", c.Function.Name),
			})
		}
		open = nil
	}
	for _, m := range messages {
		if m.Role == chat.MessageRoleTool {
			i := slices.IndexFunc(open, func(c tools.ToolCall) bool { return c.ID == m.ToolCallID })
			if i < 0 {
				continue // a result without a call
			}
			open = append(open[:i:i], open[i+1:]...)
		} else {
			answerOpenCalls()
			open = m.ToolCalls
		}
		out = append(out, m)
	}
	answerOpenCalls()
	return out
}
