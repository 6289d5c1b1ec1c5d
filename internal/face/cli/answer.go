package cli

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Answers of derived commands are shown by what they are: a text that was asked for, a list of things, or one thing.

// theText are the names of a field that is what was asked for; the other fields tell about it.
var theText = []protoreflect.Name{"result", "response", "content", "message"}

// printAnswer prints the answer of a method, and returns an error when it says that what was asked for has failed.
func (s *session) printAnswer(answer proto.Message) error {
	m := answer.ProtoReflect()
	err := s.print(answer, func() { s.showAnswer(m) })
	if err != nil {
		return err
	}
	return failed(m)
}

// failed is nil unless the answer has a status that says error or failed. Its field error, or reason, says why.
func failed(m protoreflect.Message) error {
	f := m.Descriptor().Fields().ByName("status")
	if f == nil || f.Enum() == nil || f.IsList() || !slices.Contains([]string{"error", "failed"}, scalarText(f, m.Get(f))) {
		return nil
	}
	why := "the answer does not say why"
	for _, name := range []protoreflect.Name{"reason", "error"} {
		if f := m.Descriptor().Fields().ByName(name); f != nil && !f.IsList() && m.Has(f) {
			why = scalarText(f, m.Get(f))
		}
	}
	return Fail(ExitFailed, "", "the request failed: %s", strings.TrimSuffix(why, "."))
}

func (s *session) showAnswer(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for _, name := range theText {
		if f := fields.ByName(name); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
			s.showText(m, f)
			return
		}
	}
	var lists, others []protoreflect.FieldDescriptor
	for i := range fields.Len() {
		if f := fields.Get(i); f.IsList() && f.Message() != nil {
			lists = append(lists, f)
		} else {
			others = append(others, f)
		}
	}
	if len(lists) > 0 {
		s.showLists(m, lists, others)
		return
	}
	if len(others) == 1 && others[0].Message() != nil && m.Has(others[0]) && !isScalar(others[0]) {
		m = m.Get(others[0]).Message() // the message only wraps it
	}
	if s.quiet {
		s.showName(m)
		return
	}
	s.screen.output(s.cardOf(m))
}

// showName prints the first text of a message, which is its name or id.
func (s *session) showName(m protoreflect.Message) {
	if name := firstText(m, nil); name != "" {
		s.screen.raw(printable(name) + "\n")
	}
}

// showText prints the text that was asked for, and what there is to know besides on standard error.
func (s *session) showText(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	text, spoken := m.Get(f).String(), s.spoken
	plain := strings.TrimSpace((&sanitizer{}).clean(text))
	if plain == "" || !strings.HasSuffix(strings.TrimSpace(spoken), plain) {
		if spoken != "" && !strings.HasSuffix(spoken, "\n") {
			s.screen.raw("\n")
		}
		spoken = text
		if s.screen.onOut.is() {
			text = (&sanitizer{colors: s.screen.onOut.colored(s.noColor)}).clean(text)
		}
		s.screen.raw(text)
	}
	if spoken != "" && !strings.HasSuffix(spoken, "\n") {
		s.screen.raw("\n")
	}
	var facts []string
	s.facts(m, f, failed(m) != nil, &facts)
	if len(facts) > 0 {
		s.hint("%s", strings.Join(facts, " · "))
	}
}

// facts gathers what a message has in numbers, words and lists of words, but for the field, and for what the error says
// of an answer that failed.
func (s *session) facts(m protoreflect.Message, but protoreflect.FieldDescriptor, failed bool, list *[]string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f == but || !m.Has(f) || f.Name() == "type" || failed && slices.Contains([]protoreflect.Name{"status", "error", "reason"}, f.Name()):
		case isScalar(f) || f.IsList() && f.Message() == nil:
			if text := s.text1(f, m.Get(f)); text != "" {
				*list = append(*list, labelOf(f)+" "+text)
			}
		case f.Message() != nil && !f.IsList() && !f.IsMap():
			s.facts(m.Get(f).Message(), but, failed, list)
		}
	}
}

// showLists prints a table a list.
func (s *session) showLists(m protoreflect.Message, lists, others []protoreflect.FieldDescriptor) {
	shown := 0
	for i, f := range lists {
		items := m.Get(f).List()
		if items.Len() == 0 && (i > 0 || s.quiet) || s.quiet && i > 0 {
			continue
		}
		if shown++; shown > 1 {
			s.screen.raw("\n" + labelOf(f) + ":\n")
		}
		s.showList(f, items)
	}
	for _, f := range others {
		if text := s.text1(f, m.Get(f)); text != "" && !strings.HasSuffix(string(f.Name()), "_count") {
			s.hint("%s: %s", labelOf(f), text)
		}
	}
}

// showList prints a list as a table or, where its texts are too long for one, as a card each.
func (s *session) showList(f protoreflect.FieldDescriptor, items protoreflect.List) {
	g, long := s.gridOf(f.Message(), items)
	if s.quiet {
		for i := range items.Len() {
			s.showName(items.Get(i).Message())
		}
		return
	}
	if !long {
		left := g.fit(s.screen.onOut.width())
		s.show(g, "There are no "+strings.ToLower(labelOf(f))+".")
		if len(left) > 0 {
			s.hint("Left out for want of room: %s. With -o yaml there is everything.", strings.ToLower(andList(left)))
		}
		return
	}
	for i := range items.Len() {
		if i > 0 {
			s.screen.raw("\n")
		}
		s.screen.output(s.cardOf(items.Get(i).Message()))
	}
}

// longCell is how long a text may be in a table, in characters.
const longCell = 200

// gridOf is a table of messages, without the columns that are empty. long says that a text is too long for it.
func (s *session) gridOf(d protoreflect.MessageDescriptor, items protoreflect.List) (g *grid, long bool) {
	g = newGrid()
	g.rows = make([][]cell, items.Len())
	fields := d.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		column, empty := make([]cell, items.Len()), true
		for j := range items.Len() {
			item := items.Get(j).Message()
			text := ""
			if !f.HasPresence() || item.Has(f) {
				text = strings.TrimSpace(s.cellText(f, item.Get(f)))
			}
			empty = empty && text == ""
			long = long || strings.Contains(text, "\n") || len([]rune(text)) > longCell
			column[j] = cell{text: printable(text)}
			if f.Enum() != nil || f.Name() == "status" || f.Name() == "state" {
				column[j] = statusCell(printable(text))
			}
			if column[j].text == "" {
				column[j].text = "-"
			}
		}
		if empty {
			continue
		}
		g.head = append(g.head, strings.ToUpper(labelOf(f)))
		for j := range column {
			g.rows[j] = append(g.rows[j], column[j])
		}
	}
	return g, long
}
