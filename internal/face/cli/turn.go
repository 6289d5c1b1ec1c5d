package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// runTurn makes a call whose last response is its result, and prints the responses before it as they arrive.
func (s *session) runTurn(ctx context.Context, m *method, req proto.Message) error {
	display := &turnDisplay{s: s, progress: s.startProgress(m.toolset.name+" "+m.command, s.deps.Now())}
	defer display.progress.stop()
	next := s.conn.newAttempts(m.path(), req).receiver(ctx, m.responseType, nil)
	for {
		resp, err := next()
		switch {
		case isEnd(err):
			return Fail(ExitError, "", "the server ended the answer before it was complete")
		case err != nil:
			display.endLine()
			s.interruptTurn(ctx, m, req)
			return err
		case isLastMessage(resp.ProtoReflect()):
			display.progress.stop()
			display.endLine()
			s.printedText = display.answerText.String()
			return s.printResponse(resp, nil)
		}
		display.show(resp.ProtoReflect())
	}
}

// interruptTimeout limits the call that interrupts a turn after Ctrl-C.
const interruptTimeout = 5 * time.Second

// interruptTurn interrupts the turn if the user has pressed Ctrl-C and the proto names a method for it. Without this
// call, the server would keep the turn running and wait for a retry, because the command's requests have ids.
func (s *session) interruptTurn(ctx context.Context, m *method, req proto.Message) {
	interruptMethod := m.toolset.method(commandOf(m.desc).GetInterrupt())
	if interruptMethod == nil || !errors.Is(context.Cause(ctx), errInterrupted) {
		return
	}
	interruptReq, resp := interruptMethod.requestType.New(), interruptMethod.responseType.New()
	for _, f := range interruptMethod.fields {
		from := req.ProtoReflect().Descriptor().Fields().ByName(f.desc.Name())
		interruptReq.Set(f.desc, req.ProtoReflect().Get(from))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
	defer cancel()
	if err := s.conn.Invoke(ctx, interruptMethod.path(), interruptReq.Interface(), resp.Interface()); err != nil {
		s.note("The turn was not interrupted: %v", err)
	}
}

// turnDisplay shows the messages before the final answer: the agent's text as it arrives, and a line for everything else.
type turnDisplay struct {
	s          *session
	progress   *progress
	answerText strings.Builder // the text that was written to standard output, without colours
	sanitizer  sanitizer
	speaker    string // the agent of the last message; shown only if there are several
	lineOpen   bool   // the last text on standard error did not end its line
}

func (t *turnDisplay) show(m protoreflect.Message) {
	agent, text, action, details := splitMessage(m)
	if agent != "" && t.speaker != "" && agent != t.speaker && t.s.printsEvents() {
		t.endLine()
		t.s.screen.printErrLine(paint(t.s.screen.colors, cyan, printable(agent+":")))
	}
	if agent != "" {
		t.speaker = agent
	}
	if text != "" {
		t.showText(text)
	}
	if action == "" {
		return
	}
	t.progress.setLabel(action)
	if t.s.verbose && details != "" {
		action += " " + details
	}
	if t.s.printsEvents() {
		t.endLine()
		t.s.screen.printErrLine(paint(t.s.screen.colors, cyan, printable("· "+action)))
	}
}

// showText shows text as it arrives. On a terminal it becomes the beginning of the answer. If the answer goes to a file or a
// program, the text goes to standard error. With -q, it is not shown.
func (t *turnDisplay) showText(text string) {
	switch s := t.s; {
	case s.quiet:
		return
	case s.output.forPeople() && s.screen.outTerminal.isTerminal():
		s.screen.printPart(text)
		t.answerText.WriteString(t.sanitizer.clean(text))
		return // the screen tracks where its line ends
	case !s.printsEvents():
		return
	default:
		s.screen.printErrPart(text)
	}
	t.lineOpen = !strings.HasSuffix(text, "\n")
}

// endLine ends the line on standard error that the last text has left open.
func (t *turnDisplay) endLine() {
	if t.lineOpen {
		t.s.screen.printErrPart("\n")
		t.lineOpen = false
	}
}

// splitMessage splits a message about an agent's work, according to the options of its fields. It returns the agent's name,
// the agent's text, a short description of the agent's action, and the details of the action as JSON.
func splitMessage(m protoreflect.Message) (agent, text, action, details string) {
	var actions, documents []string
	for f := range itemsOf(m.Descriptor().Fields()) {
		if !m.Has(f) {
			continue
		}
		switch v := m.Get(f); shownOption(f).GetRole() {
		case fleetv1.Shown_wrapped:
			return splitMessage(v.Message())
		case fleetv1.Shown_agent:
			agent = v.String()
		case fleetv1.Shown_said:
			text += v.String()
		case fleetv1.Shown_action:
			actions = append(actions, scalarText(f, v))
		case fleetv1.Shown_details:
			if data, err := wire.Marshal(v.Message().Interface()); err == nil {
				documents = append(documents, string(data))
			}
		}
	}
	return agent, text, strings.Join(actions, " "), strings.Join(documents, " ")
}
