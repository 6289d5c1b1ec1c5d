package cli

import (
	"fmt"
	"strings"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

// eventMarks are the prefixes of the events of a task on standard error.
var eventMarks = map[fleetv1.Event_Type]string{
	fleetv1.Event_task_step: "· ", fleetv1.Event_task_message: "> ", fleetv1.Event_task_answer: "> ", fleetv1.Event_task_question: "? ",
	fleetv1.Event_task_check: "= ", fleetv1.Event_task_stalled: "! ", fleetv1.Event_task_recovered: "! ", fleetv1.Event_task_stopping: "! ",
}

// eventLines describes an event of a task for people, in several lines if the text has line breaks, and returns the colour of the lines. It
// returns "" if the event is not shown.
func (s *session) eventLines(e *fleetv1.Event) (lines string, c color) {
	text := strings.TrimRight(e.GetText(), "\r\n")
	mark, ok := eventMarks[e.GetType()]
	c = cyan
	switch step := e.GetStep(); {
	case e.GetType() == fleetv1.Event_task_detail:
		if !s.verbose {
			return "", c
		}
		mark, c = "  ", dim
		if ms := step.GetToolResult().GetDurationMs(); ms > 0 {
			text += fmt.Sprintf(" (%s)", (time.Duration(ms) * time.Millisecond).Round(time.Millisecond*10))
		}
		if step.GetToolResult().GetIsError() {
			c = red
		}
		if patch := step.GetFileEdit().GetPatch(); patch != "" {
			text += "\n" + strings.TrimRight(patch, "\n")
		}
	case !ok:
		return "", c
	default:
		switch step.GetKind() {
		case fleetv1.StepKind_denied:
			mark, c = "! ", red
		case fleetv1.StepKind_retry, fleetv1.StepKind_limit, fleetv1.StepKind_warning:
			mark, c = "! ", yellow
		}
	}
	if step := e.GetStep(); step.GetParentId() != "" {
		mark = "  " + mark
	}
	return mark + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(mark))), c
}

// printEventLines prints the lines about an event on standard error if printsEvents allows it.
func (s *session) printEventLines(lines string, c color) {
	if !s.printsEvents() || lines == "" {
		return
	}
	for line := range strings.SplitSeq(lines, "\n") {
		s.screen.printErrLine(paint(s.screen.colors, c, printable(line)))
	}
}

// allowRuleFinder finds the rules that would allow denied tool calls. It needs all events of a task, in order.
type allowRuleFinder struct {
	calls map[string]*fleetv1.StepToolCall // recent calls, by id
}

// handleEvent returns the rule for allowed_tools that would allow the tool call that the event denies. It returns "" if the event denies none,
// or if no such rule would help. It remembers the tool calls of other events.
func (d *allowRuleFinder) handleEvent(e *fleetv1.Event) string {
	step := e.GetStep()
	if call := step.GetToolCall(); call != nil {
		if d.calls == nil || len(d.calls) > 1000 {
			d.calls = map[string]*fleetv1.StepToolCall{}
		}
		d.calls[call.GetId()] = call
		return ""
	}
	denied := step.GetDenied()
	if denied.GetName() == "" || strings.HasPrefix(denied.GetReason(), "denied by ") { // a rule that denies takes precedence
		return ""
	}
	command := d.calls[denied.GetId()].GetArguments().GetStructValue().GetFields()["command"].GetStringValue()
	if word, _, _ := strings.Cut(strings.TrimSpace(command), " "); word != "" {
		return denied.GetName() + "(" + word + " *)"
	}
	return denied.GetName()
}
