package cli

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// The answers of derived commands are printed as the options of their fields say, and otherwise by their shape: a list,
// or a single thing.

// printAnswer prints the answer of a method, and returns an error if the answer reports a failure.
func (s *session) printAnswer(answer proto.Message) error {
	m := answer.ProtoReflect()
	err := s.print(answer, func() { s.showAnswer(m) })
	if err != nil {
		return err
	}
	return failed(m)
}

// failed returns nil unless a field of the answer says that the call failed. Another field may give the cause.
func failed(m protoreflect.Message) error {
	bad, why := false, "the answer does not say why"
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch s := shownBy(f); {
		case s.GetFailedValue() != "":
			bad = scalarText(f, m.Get(f)) == s.GetFailedValue()
		case s.GetRole() == fleetv1.Shown_cause && m.Has(f):
			why = scalarText(f, m.Get(f))
		}
	}
	if !bad {
		return nil
	}
	return Fail(ExitFailed, "", "the request failed: %s", strings.TrimSuffix(why, "."))
}

func (s *session) showAnswer(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); shownBy(f).GetRole() == fleetv1.Shown_text {
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

// showText prints the requested text, and the other fields on standard error.
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

// facts collects the message's numbers, words and lists of words, except the given field and what the error of a failed
// answer reports.
func (s *session) facts(m protoreflect.Message, but protoreflect.FieldDescriptor, failed bool, list *[]string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f == but || !m.Has(f) || f.Name() == resultField || failed && (shownBy(f).GetFailedValue() != "" || shownBy(f).GetRole() == fleetv1.Shown_cause):
		case isScalar(f) || f.IsList() && f.Message() == nil:
			if text := s.text1(f, m.Get(f)); text != "" {
				*list = append(*list, labelOf(f)+" "+text)
			}
		case f.Message() != nil && !f.IsList() && !f.IsMap():
			s.facts(m.Get(f).Message(), but, failed, list)
		}
	}
}

// showLists prints a table for each list.
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

// showList prints a list as a table, or as cards if its texts are too long for a table.
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

// longCell is the longest text in a table, in characters.
const longCell = 200

// gridOf returns a table of messages without empty columns. long reports whether a text is too long for it.
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
