package cli

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fleet/internal/face/wire"
)

// units are suffixes of numeric field names that name the unit.
var units = []struct {
	ending string
	kept   bool // the suffix is part of the label too
	text   func(float64) string
}{
	{"_ms", false, func(n float64) string { return lasting(time.Duration(n * float64(time.Millisecond))) }},
	{"_seconds", false, func(n float64) string { return lasting(time.Duration(n * float64(time.Second))) }},
	{"_time", true, func(n float64) string { return lasting(time.Duration(n * float64(time.Second))) }},
	{"_usd", false, cost},
	{"_size", true, func(n float64) string { return sizeOf(int64(n)) }},
	{"_bytes", false, func(n float64) string { return sizeOf(int64(n)) }},
}

// labelOf returns the label of a field: payload_url becomes "Payload url", started_at "Started", duration_ms
// "Duration".
func labelOf(f protoreflect.FieldDescriptor) string {
	name := string(f.Name())
	if isNumber(f) {
		for _, u := range units {
			if !u.kept {
				name = strings.TrimSuffix(name, u.ending)
			}
		}
	}
	if f.Message() != nil && isTime(f) {
		name = strings.TrimSuffix(name, "_at")
	}
	return upperFirst(strings.ReplaceAll(name, "_", " "))
}

// lasting formats a duration: 12 ms, 3.4 s, 5m10s.
func lasting(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatFloat(math.Round(float64(d)/float64(time.Millisecond)), 'f', -1, 64) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	}
	return exact(d)
}

func sizeOf(n int64) string { return size(int32(min(n, math.MaxInt32))) }

func isTime(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp"
}

func isNumber(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}

// isScalar reports whether a value of the field is a single word or text.
func isScalar(f protoreflect.FieldDescriptor) bool {
	if f.IsList() || f.IsMap() {
		return false
	}
	if f.Message() == nil {
		return true
	}
	switch messageForm(f.Message()) {
	case asObject, asJSON:
		return false
	}
	return true
}

// scalarText formats one value, independent of the current time.
func scalarText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		if v.Bool() {
			return "yes"
		}
		return "no"
	case protoreflect.EnumKind:
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil && value.Number() != 0 {
			return string(value.Name())
		}
		return ""
	case protoreflect.StringKind:
		return v.String()
	case protoreflect.BytesKind:
		return sizeOf(int64(len(v.Bytes())))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageText(v.Message())
	}
	return numberText(f, v)
}

func numberText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	n, err := strconv.ParseFloat(v.String(), 64)
	if err != nil {
		return v.String()
	}
	for _, u := range units {
		if strings.HasSuffix(string(f.Name()), u.ending) {
			return u.text(n)
		}
	}
	if f.Kind() == protoreflect.DoubleKind || f.Kind() == protoreflect.FloatKind {
		return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64)
	}
	return v.String()
}

// messageText formats a message that is a single value: a wrapper, a duration, or any JSON.
func messageText(m protoreflect.Message) string {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		return lasting(d.AsDuration())
	}
	return jsonText(m.Interface())
}

// jsonText formats a message as JSON in one line; a string without its quotes.
func jsonText(m proto.Message) string {
	data, err := wire.Marshal(m)
	if err != nil {
		return ""
	}
	var text string
	if json.Unmarshal(data, &text) == nil && (len(data) == 0 || data[0] == '"') {
		return text
	}
	return string(data)
}

// text1 formats the value of a field, possibly a list, as one text; empty if the value is empty.
func (s *session) text1(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case f.IsMap():
		return ""
	case f.IsList():
		var parts []string
		for i := range v.List().Len() {
			parts = append(parts, s.one(f, v.List().Get(i)))
		}
		return strings.Join(parts, ", ")
	case isNumber(f) && (v.String() == "0" || v.String() == "-0"):
		return ""
	}
	return s.one(f, v)
}

// one formats one value of a field. Times are shown as ages.
func (s *session) one(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if !isTime(f) {
		return scalarText(f, v)
	}
	t, ok := v.Message().Interface().(*timestamppb.Timestamp)
	if !ok || !v.Message().IsValid() {
		return ""
	}
	return s.age(t) + " ago"
}

// cellText formats the value of a field for a table, where 0 is shown like any number.
func (s *session) cellText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case isScalar(f):
		return s.one(f, v)
	case f.IsList() && f.Message() == nil:
		return s.text1(f, v)
	case f.IsList() || f.IsMap() || !v.Message().IsValid():
		return ""
	}
	return jsonText(v.Message().Interface())
}

// cardOf returns a card with all set fields of a message.
func (s *session) cardOf(m protoreflect.Message) string {
	var c card
	colors := s.screen.onOut.colored(s.noColor)
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); m.Has(f) {
			c.width = max(c.width, len(labelOf(f))+gap)
		}
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		label, v := labelOf(f), m.Get(f)
		switch {
		case isTime(f):
			if t, ok := v.Message().Interface().(*timestamppb.Timestamp); ok {
				c.line(label, s.when(t))
			}
		case f.Enum() != nil && !f.IsList():
			word := scalarText(f, v)
			c.line(label, paint(colors, colorOf(word), word))
		case isScalar(f), f.IsList() && f.Message() == nil:
			c.text(label, harmless(s.cellText(f, v)))
		default:
			c.text(label, harmless(tree(m, f)))
		}
	}
	return c.b.String()
}

// harmless returns a multi-line text without control characters that a terminal would interpret.
func harmless(text string) string {
	if !strings.ContainsAny(strings.TrimRight(text, "\r\n"), "\r\n") {
		return printable(text)
	}
	return (&sanitizer{}).clean(strings.ReplaceAll(text, "\r\n", "\n"))
}

// tree formats a structured field as YAML.
func tree(m protoreflect.Message, f protoreflect.FieldDescriptor) string {
	alone := m.New()
	if !m.Has(f) {
		return ""
	}
	alone.Set(f, m.Get(f))
	data, err := wire.Marshal(alone.Interface())
	if err != nil {
		return ""
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return ""
	}
	text, err := toYAML(all[string(f.Name())])
	if err != nil {
		return ""
	}
	return text
}
