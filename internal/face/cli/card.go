package cli

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

// cardLine is a line of a card: a label, and a value that is a text, a cell, a time or a value of an enum. note is shown in
// parentheses after the value. A line without a value is left out of the card.
type cardLine struct {
	label string
	value any
	note  string
}

const minLabelWidth = 14

// card returns a text that shows one thing in detail, with one label and its value per line. A text of several lines is indented below its label.
// The texts of the card are safe on a terminal.
func (s *session) card(lines ...cardLine) string {
	width := minLabelWidth
	var visible []cardLine
	for _, l := range lines {
		if l.value = s.cardText(l); l.value != "" {
			visible, width = append(visible, l), max(width, len(l.label)+columnGap)
		}
	}
	var b strings.Builder
	for _, l := range visible {
		text, _ := l.value.(string)
		if !strings.Contains(text, "\n") {
			b.WriteString(l.label + strings.Repeat(" ", width-len(l.label)) + text + "\n")
			continue
		}
		b.WriteString(l.label + "\n")
		for part := range strings.SplitSeq(text, "\n") {
			b.WriteString("  " + part + "\n")
		}
	}
	return b.String()
}

// cardText formats the value of a line with its note. It returns "" for a line without a value.
func (s *session) cardText(l cardLine) string {
	c := cell{}
	switch v := l.value.(type) {
	case nil:
	case *timestamppb.Timestamp:
		c.text = s.timeText(v)
	case string:
		c.text = v
	case cell:
		c = v
	default:
		c = s.cellOf(v)
	}
	if c.text = sanitizeLines(strings.TrimRight(c.text, "\n")); c.text == "" || c.text == emptyCellText {
		return ""
	}
	return paint(s.screen.outTerminal.hasColors(s.noColor), c.color, c.text) + inParentheses(l.note)
}

// cardOf returns a card with the set fields of a message. It leaves out hidden fields, maps and lists of messages.
func (s *session) cardOf(m protoreflect.Message) string {
	var lines []cardLine
	for f := range itemsOf(m.Descriptor().Fields()) {
		if f.HasPresence() && !m.Has(f) || shownOption(f).GetRole() == fleetv1.Shown_hidden {
			continue
		}
		switch {
		case isTime(f) && !f.IsList():
			lines = append(lines, cardLine{labelOf(f), timeOf(m.Get(f)), ""})
		case isScalar(f), f.IsList() && f.Message() == nil:
			text := s.valueText(f, m.Get(f))
			lines = append(lines, cardLine{labelOf(f), cell{text, fieldColor(f, text)}, ""})
		case m.Has(f) && !f.IsList() && !f.IsMap():
			lines = append(lines, cardLine{labelOf(f), yamlOf(m.Get(f).Message()), ""})
		}
	}
	return s.card(lines...)
}

// sanitizeLines returns a text of one or more lines without control characters that a terminal would interpret.
func sanitizeLines(text string) string {
	if !strings.ContainsAny(strings.TrimRight(text, "\r\n"), "\r\n") {
		return printable(text)
	}
	return (&sanitizer{}).clean(strings.ReplaceAll(text, "\r\n", "\n"))
}
