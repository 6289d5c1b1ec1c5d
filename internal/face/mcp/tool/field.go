package tool

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// itemSize returns how many bytes the list item v, a message, adds to the JSON.
func itemSize(v protoreflect.Value) (int, error) {
	b, err := wire.Marshal(v.Message().Interface())
	return len(b) + 1, err
}

// textField is one text of a message: the value of a string field, a list item, or a map value.
type textField struct {
	path     string // field names, without list indexes and map keys
	value    string
	jsonSize int // its size in JSON, in bytes, without the quotes
	set      func(string)
}

// jsonPrefix returns at most the first n bytes of a text, without splitting a character, and their size in JSON without the
// quotes.
func jsonPrefix(s string, n int) (string, int) {
	n = min(n, len(s))
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	size := n
	for i := range n {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r' || c == '\b' || c == '\f':
			size++
		case c < ' ':
			size += 5
		}
	}
	return s[:n], size
}

// eachText calls each with every text of the message and of the messages in it. path is the path of the message, "" for the whole.
func eachText(m protoreflect.Message, path string, each func(textField)) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := joinPath(path, f)
		switch {
		case f.IsMap():
			values := v.Map()
			values.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				switch f.MapValue().Kind() {
				case protoreflect.StringKind:
					each(textField{path: path, value: v.String(), set: func(s string) { values.Set(k, protoreflect.ValueOfString(s)) }})
				case protoreflect.MessageKind:
					eachText(v.Message(), path, each)
				}
				return true
			})
		case f.IsList():
			items := v.List()
			for i := range items.Len() {
				switch f.Kind() {
				case protoreflect.StringKind:
					each(textField{path: path, value: items.Get(i).String(), set: func(s string) { items.Set(i, protoreflect.ValueOfString(s)) }})
				case protoreflect.MessageKind:
					eachText(items.Get(i).Message(), path, each)
				}
			}
		case f.Kind() == protoreflect.StringKind:
			each(textField{path: path, value: v.String(), set: func(s string) { m.Set(f, protoreflect.ValueOfString(s)) }})
		case f.Kind() == protoreflect.MessageKind:
			eachText(v.Message(), path, each)
		}
		return true
	})
}

// listField is a list or map field of a message.
type listField struct {
	path      string
	len, size int
	truncate  func(n int) // keeps the first n items
}

// eachList calls each with every list and map of the message and of the messages in it. The size is an estimate of the size in JSON.
func eachList(m protoreflect.Message, path string, each func(listField)) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path, size := joinPath(path, f), 0
		add := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
			switch f.Kind() {
			case protoreflect.MessageKind:
				size += proto.Size(v.Message().Interface())
				eachList(v.Message(), path, each)
			case protoreflect.StringKind:
				size += len(v.String())
			}
			size += 2
		}
		switch {
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				size += len(k.String())
				add(f.MapValue(), v)
				return true
			})
			each(listField{path: path, len: v.Map().Len(), size: size, truncate: func(n int) { truncateMap(v.Map(), n) }})
		case f.IsList():
			for i := range v.List().Len() {
				add(f, v.List().Get(i))
			}
			each(listField{path: path, len: v.List().Len(), size: size, truncate: v.List().Truncate})
		case f.Kind() == protoreflect.MessageKind:
			eachList(v.Message(), path, each)
		}
		return true
	})
}

// truncateMap keeps the n entries whose keys are first in string order.
func truncateMap(m protoreflect.Map, n int) {
	var keys []protoreflect.MapKey
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys[n:] {
		m.Clear(k)
	}
}

func joinPath(path string, f protoreflect.FieldDescriptor) string {
	if path == "" {
		return string(f.Name())
	}
	return path + "." + string(f.Name())
}
