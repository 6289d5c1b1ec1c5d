//go:build cgo

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/cagent/pkg/runtime"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// watcher converts the library's events to outputs.
type watcher struct {
	run       *run
	rt        *runtime.LocalRuntime
	agent     string          // the current speaker
	line      strings.Builder // text of the line that is not complete yet
	text      strings.Builder // all text since the last flushMessage
	openCalls int             // number of open tool calls
	err       error           // the last error that the library has reported

	midLine bool // the text that was output last does not end with a newline
}

// watch handles the events until the channel is closed, and returns true. If ctx is done and the channel is not closed
// within endGrace, it returns false.
func (w *watcher) watch(ctx context.Context, events <-chan runtime.Event) bool {
	flushTimer := time.NewTimer(time.Hour)
	defer flushTimer.Stop()
	cancelled := ctx.Done()
	var graceOver <-chan time.Time
	defer w.finish()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return true
			}
			sizeBefore := w.line.Len()
			w.handle(ctx, e)
			if sizeBefore == 0 && w.line.Len() > 0 {
				flushTimer.Reset(flushAfter)
			}
			switch full, err := w.run.out.state(); {
			case full:
				w.run.kill(errOutputLimit)
			case err != nil: // the supervisor was killed; the cost of active requests is still recorded
				w.run.end(errOutputUnread)
			}
		case <-flushTimer.C:
			w.flushLine()
		case <-cancelled:
			cancelled, graceOver = nil, time.After(endGrace)
		case <-graceOver:
			go func() {
				for range events { // drains the events so that the sender can end
				}
			}()
			return false
		}
	}
}

// finish outputs the remaining text and the remaining usage.
func (w *watcher) finish() {
	w.endLine()
	w.writeUsage()
}

// handle handles one event.
func (w *watcher) handle(ctx context.Context, e runtime.Event) {
	if name := e.GetAgentName(); name != "" && name != w.agent {
		w.endLine() // the previous speaker's text
		w.agent = name
	}
	switch e := e.(type) {
	case *runtime.AgentChoiceEvent:
		w.addText(e.Content)
	case *runtime.ToolCallEvent:
		w.run.toolCalls.Add(1)
		w.writeToolCall(e.ToolCall)
	case *runtime.ToolCallResponseEvent:
		failed := e.Result != nil && e.Result.IsError
		w.writeToolResult(e.ToolCall, e.Response, failed)
	case *runtime.TokenUsageEvent:
		w.endLine()
		w.writeUsage()
	case *runtime.WarningEvent:
		w.flushMessage()
		w.warn(fleet.Shorten(toolsetErrorPrefixes.Replace(e.Message), maxData))
	case *runtime.ErrorEvent:
		text := e.Error
		for _, prefix := range []string{"creating chat completion: ", "error receiving from stream: "} { // internal prefixes
			text = strings.TrimPrefix(text, prefix)
		}
		w.err = errors.New(text)
	case *runtime.ElicitationRequestEvent:
		w.retryAnswer(ctx, func() error {
			return w.rt.ResumeElicitation(ctx, tools.ElicitationActionDecline, nil)
		})
	case *runtime.ToolCallConfirmationEvent:
		w.retryAnswer(ctx, func() error { // approved tools do not ask, so this tool has bypassed the guard
			w.rt.Resume(ctx, runtime.ResumeTypeReject)
			return nil
		})
	}
}

func (w *watcher) writeToolCall(c tools.ToolCall) {
	w.flushMessage()
	w.openCalls++
	w.writeStep(describeCall(c), fleet.Step{Type: fleet.StepToolCall, ID: c.ID, Name: c.Function.Name, Arguments: encodeArguments(c.Function.Arguments)})
}

// writeToolResult outputs the result of a call.
func (w *watcher) writeToolResult(c tools.ToolCall, result string, failed bool) {
	w.flushMessage()
	w.openCalls = max(0, w.openCalls-1)
	text := c.Function.Name + " answered"
	data := fleet.Step{Type: fleet.StepToolResult, ID: c.ID, Name: c.Function.Name, Result: fleet.Shorten(result, maxData), IsError: failed}
	if failed {
		text = c.Function.Name + " failed"
	}
	if result != "" {
		text += ": " + result
	}
	w.writeStep(text, data)
}

// retryAnswer starts a goroutine that calls f, which answers a question of the library, until f succeeds or ctx is done. f fails while the
// library is not yet waiting for the answer. The library does not signal when it starts to wait.
func (w *watcher) retryAnswer(ctx context.Context, f func() error) {
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if f() == nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// addText adds text of the agent and outputs the lines that are complete.
func (w *watcher) addText(s string) {
	s = driver.CleanText([]byte(s))
	w.text.WriteString(s)
	w.line.WriteString(s)
	if strings.Contains(s, "\n") || w.line.Len() > flushSize {
		all := w.line.String()
		cut := strings.LastIndexByte(all, '\n') + 1
		if len(all)-cut > flushSize {
			cut = len(all)
		}
		w.line.Reset()
		w.line.WriteString(all[cut:])
		w.writeText(all[:cut])
	}
}

// flushLine outputs the text of an incomplete line. The rest of the line may follow.
func (w *watcher) flushLine() {
	s := w.line.String()
	w.line.Reset()
	w.writeText(s)
}

// endLine outputs the text of an incomplete line, and the newline that is missing at the end of the output.
func (w *watcher) endLine() {
	s := w.line.String()
	w.line.Reset()
	if (s != "" || w.midLine) && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	w.writeText(s)
}

func (w *watcher) writeText(s string) {
	if s != "" {
		w.midLine = !strings.HasSuffix(s, "\n")
		w.run.out.writeLine(driver.OutputLine{OpenCalls: w.openCalls, Text: w.run.secrets.hide(s), Data: w.stepData(fleet.Step{Type: fleet.StepText})})
	}
}

// flushMessage outputs the remaining text and starts a new message. It is called before tool calls, their results, and
// warnings of the library.
func (w *watcher) flushMessage() {
	w.endLine()
	w.text.Reset()
}

func (w *watcher) writeStep(text string, data fleet.Step) {
	w.run.out.writeLine(driver.OutputLine{Step: true, OpenCalls: w.openCalls, Text: w.run.secrets.hide(text), Data: w.stepData(data)})
}

func (w *watcher) warn(text string) {
	w.writeStep("warning: "+text, fleet.Step{Type: fleet.StepWarning, Message: text})
}

// stepData returns the structured data of an output as JSON, with the name of the current agent and without secrets. Numbers of the
// step stay, because a secret that is a number can also be the number of something else.
func (w *watcher) stepData(s fleet.Step) json.RawMessage {
	s.Agent = w.agent
	if s.Arguments != nil {
		s.Arguments = encodeArguments(w.run.secrets.hide(string(s.Arguments)))
	}
	return w.run.secrets.hideInStrings([]byte(strings.ReplaceAll(string(s.JSON()), `\u0000`, `\ufffd`)))
}

// writeUsage outputs the usage of each request that was answered since the last call.
func (w *watcher) writeUsage() {
	for _, u := range w.run.gate.takeUsage() {
		usage := u.toFleet()
		usage.Model, usage.CostUSD = u.model, u.usd
		w.writeStep(fmt.Sprintf("%s: %d tokens in, %d out", u.model, u.inputTotal(), u.output), fleet.Step{Type: fleet.StepUsage, Usage: &usage})
		if u.truncated {
			w.warn("the answer of " + u.model + " was cut off at the limit of tokens: raise max_tokens of the model")
		}
	}
}

// toolsetErrorPrefixes removes the library's prefixes from errors of toolsets.
var toolsetErrorPrefixes = strings.NewReplacer(fmt.Sprintf("%T start failed: ", (*guard)(nil)), "", fmt.Sprintf("%T list failed: ", (*guard)(nil)), "")

// describeCall describes a tool call by the tool's name and its most informative argument.
func describeCall(c tools.ToolCall) string {
	var args map[string]any
	_ = json.Unmarshal([]byte(c.Function.Arguments), &args) // without arguments there is nothing to add
	for _, key := range []string{"cmd", "command", "path", "url", "query", "pattern", "agent", "task", "thought", "description", "summary"} {
		if s, ok := args[key].(string); ok && strings.TrimSpace(s) != "" {
			return c.Function.Name + ": " + s
		}
	}
	return c.Function.Name
}

// encodeArguments returns the arguments of a tool call as JSON. If they are not JSON or too long, it returns them as text,
// shortened.
func encodeArguments(s string) json.RawMessage {
	if len(s) <= maxData && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	b, _ := json.Marshal(fleet.Shorten(s, maxData)) // strings can always be encoded
	return b
}
