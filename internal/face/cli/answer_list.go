package cli

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// showLists prints a table for each list of an answer, and the other fields on standard error.
func (s *session) showLists(m protoreflect.Message, lists, others []protoreflect.FieldDescriptor, portion *fleetv1.Portion) {
	shown := 0
	for i, f := range lists {
		items := m.Get(f).List()
		if i > 0 && (items.Len() == 0 || s.quiet) {
			continue
		}
		if shown++; shown > 1 {
			s.screen.print("\n" + labelOf(f) + ":\n")
		}
		s.showList(f, items)
	}
	for _, f := range others {
		text := s.valueText(f, m.Get(f))
		switch {
		case text == "" || isZero(f, m.Get(f)) || shownBy(f).GetRole() == fleetv1.Shown_hidden:
		case string(f.Name()) == portion.GetNext():
			s.hint("There are more: repeat the command with --%s %s", flagOf(portion.GetFrom()), text)
		default:
			s.hint("%s: %s", labelOf(f), text)
		}
	}
}

// showList prints a list as a table, or as cards if its texts are too long for a table.
func (s *session) showList(f protoreflect.FieldDescriptor, items protoreflect.List) {
	if s.quiet {
		for i := range items.Len() {
			s.showName(items.Get(i).Message())
		}
		return
	}
	if g, long := s.gridOf(f.Message(), items); !long {
		left := g.fit(s.screen.onOut.width())
		s.show(g, "There are no "+strings.ToLower(labelOf(f))+".")
		if len(left) > 0 {
			s.hint("The terminal is too narrow for: %s. -o yaml shows everything.", strings.ToLower(andList(left)))
		}
		return
	}
	for i := range items.Len() {
		if i > 0 {
			s.screen.print("\n")
		}
		s.screen.output(s.cardOf(items.Get(i).Message()))
	}
}

// longCell is the longest text in a table, in characters.
const longCell = 200

// gridOf returns a table of messages without empty columns. long reports whether a text is too long for a table.
func (s *session) gridOf(d protoreflect.MessageDescriptor, items protoreflect.List) (g *grid, long bool) {
	g = newGrid()
	g.rows = make([][]cell, items.Len())
	fields := d.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if shownBy(f).GetRole() == fleetv1.Shown_hidden || shownBy(f).GetWide() && s.output != wide {
			continue
		}
		column, empty := make([]cell, items.Len()), true
		for j := range column {
			item, text := items.Get(j).Message(), ""
			if !f.HasPresence() || item.Has(f) {
				text = strings.TrimSpace(s.valueText(f, item.Get(f)))
			}
			empty = empty && text == ""
			long = long || strings.Contains(text, "\n") || len([]rune(text)) > longCell
			column[j] = cellOf(cell{text, fieldColor(f, text)})
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
