package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// turn makes a call whose last answer is its result, and tells the answers before it as they come.
func (s *session) turn(ctx context.Context, m *method, req proto.Message) error {
	l := &live{s: s, progress: s.progress(m.set.name+" "+m.command, s.deps.Now())}
	defer l.progress.done()
	next := s.calls.receive(ctx, m.path(), req, m.out, nil)
	for {
		answer, err := next()
		switch {
		case isEnd(err):
			return Fail(ExitError, "", "the server ended the answer before it was complete")
		case err != nil:
			l.endLine()
			s.interruptTurn(ctx, m, req)
			return err
		case isResult(answer.ProtoReflect()):
			l.progress.done()
			l.endLine()
			s.spoken = l.said.String()
			return s.printAnswer(answer)
		}
		l.show(answer.ProtoReflect())
	}
}

// interruptTimeout bounds the call that interrupts a turn after Ctrl-C.
const interruptTimeout = 5 * time.Second

// interruptTurn interrupts the turn that the person has given up with Ctrl-C, by the method of the toolset that does so, where
// there is one. The server would wait for a while, since the command's requests have ids.
func (s *session) interruptTurn(ctx context.Context, m *method, req proto.Message) {
	if !errors.Is(context.Cause(ctx), errInterrupted) {
		return
	}
	for _, other := range m.set.methods {
		if !strings.HasPrefix(string(other.desc.Name()), "Interrupt") || len(other.fields) != 1 {
			continue
		}
		id := other.fields[0].desc
		from := req.ProtoReflect().Descriptor().Fields().ByName(id.Name())
		if from == nil {
			continue
		}
		interrupt, answer := other.in.New(), other.out.New()
		interrupt.Set(id, req.ProtoReflect().Get(from))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
		defer cancel()
		if err := s.calls.Invoke(ctx, other.path(), interrupt.Interface(), answer.Interface()); err != nil {
			s.note("The turn was not interrupted: %v", err)
		}
		return
	}
}

// isResult says whether the message is the last one of its stream: its field type says complete.
func isResult(m protoreflect.Message) bool {
	f := m.Descriptor().Fields().ByName("type")
	if f == nil || f.Enum() == nil {
		return false
	}
	v := f.Enum().Values().ByNumber(m.Get(f).Enum())
	return v != nil && v.Name() == "complete"
}

// live shows what comes before an answer: what an agent says, as it says it, and in a line each what else it does.
type live struct {
	s        *session
	progress *progress
	said     strings.Builder // what went to standard output, without colours
	plain    sanitizer
	who      string // the agent that did the last thing; of one alone nobody asks
	open     bool   // the last line has no end yet
}

func (l *live) show(m protoreflect.Message) {
	who, said, did, more := partsOf(m)
	if who != "" && l.who != "" && who != l.who && l.s.tells() {
		l.endLine()
		l.s.screen.line(paint(l.s.screen.colors, cyan, printable(who+":")))
	}
	if who != "" {
		l.who = who
	}
	if said != "" {
		l.say(said)
	}
	if did == "" {
		return
	}
	l.progress.say(did)
	if l.s.verbose && more != "" {
		did += " " + more
	}
	if l.s.tells() {
		l.endLine()
		l.s.screen.line(paint(l.s.screen.colors, cyan, printable("· "+did)))
	}
}

// say shows text as it comes. In front of a person it is the beginning of the answer; where the answer goes to a file or
// a program, it is told beside it.
func (l *live) say(text string) {
	switch s := l.s; {
	case s.quiet:
		return
	case s.output.forPeople() && s.screen.onOut.is():
		s.screen.output(text)
		l.said.WriteString(l.plain.clean(text))
		return // the screen knows itself where its line ends
	case !s.tells():
		return
	default:
		s.screen.aside(text)
	}
	l.open = !strings.HasSuffix(text, "\n")
}

// endLine ends the line that the last text began.
func (l *live) endLine() {
	if l.open {
		l.s.screen.aside("\n")
		l.open = false
	}
}

// partsOf takes a message apart that tells what an agent does: what it says, what it does in a few words, and the details
// of that as JSON. Its name is in a field called agent. What it says is in a field called text, message, delta or content, or that ends so.
func partsOf(m protoreflect.Message) (who, said, did, more string) {
	var doing, details []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) || f.IsList() || f.IsMap() || f.Name() == "type" {
			continue
		}
		words := strings.Split(string(f.Name()), "_")
		switch last := words[len(words)-1]; {
		case f.Message() != nil && f.Name() == "content": // what the message wraps
			return partsOf(m.Get(f).Message())
		case f.Message() != nil:
			if data, err := wire.Marshal(m.Get(f).Message().Interface()); err == nil {
				details = append(details, string(data))
			}
		case f.Kind() != protoreflect.StringKind && f.Enum() == nil, last == "id":
		case f.Name() == "agent":
			who = m.Get(f).String()
		case last == "text", last == "message", last == "delta", last == "content":
			said += m.Get(f).String()
		default:
			doing = append(doing, scalarText(f, m.Get(f)))
		}
	}
	return who, said, strings.Join(doing, " "), strings.Join(details, " ")
}
