package cli

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// cardOf returns a card with all set fields of a message.
func (s *session) cardOf(m protoreflect.Message) string {
	var c card
	var shown []protoreflect.FieldDescriptor
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) || shownBy(f).GetRole() == fleetv1.Shown_hidden {
			continue
		}
		shown = append(shown, f)
		if m.Has(f) {
			c.width = max(c.width, len(labelOf(f))+gap)
		}
	}
	colors := s.screen.onOut.colored(s.noColor)
	for _, f := range shown {
		label, v := labelOf(f), m.Get(f)
		switch {
		case isTime(f) && !f.IsList():
			c.line(label, s.when(timeOf(v)))
		case isScalar(f), f.IsList() && f.Message() == nil:
			text := s.valueText(f, v)
			c.text(label, paint(colors, fieldColor(f, text), harmless(text)))
		case m.Has(f) && !f.IsList() && !f.IsMap():
			c.text(label, harmless(tree(v.Message())))
		}
	}
	return c.b.String()
}

// harmless returns a text of one or more lines without control characters that a terminal would interpret.
func harmless(text string) string {
	if !strings.ContainsAny(strings.TrimRight(text, "\r\n"), "\r\n") {
		return printable(text)
	}
	return (&sanitizer{}).clean(strings.ReplaceAll(text, "\r\n", "\n"))
}

// tree formats a message as YAML.
func tree(m protoreflect.Message) string {
	data, err := wire.Marshal(m.Interface())
	if err != nil {
		return ""
	}
	text, err := toYAML(data)
	if err != nil {
		return ""
	}
	return text
}
