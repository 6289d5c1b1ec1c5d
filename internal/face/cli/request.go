package cli

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// request builds the request from the given values. The server checks whether they are allowed.
func (s *session) request(m *method, inputs []*input) (proto.Message, error) {
	body := map[string]json.RawMessage{}
	for _, in := range inputs {
		if !in.set {
			continue
		}
		value, err := s.value(in)
		if err != nil {
			return nil, err
		}
		body[string(in.desc.Name())] = value
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req := m.in.New().Interface()
	if err := wire.Unmarshal(data, req); err != nil {
		return nil, err
	}
	return req, nil
}

// value returns the given value as JSON.
func (s *session) value(in *input) (json.RawMessage, error) {
	if in.form == asTextPair || in.form == asObject && !in.desc.IsList() {
		return s.object(in)
	}
	var list []json.RawMessage
	for _, given := range in.given {
		one, err := s.single(in, given)
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	if in.desc.IsList() {
		if list == nil {
			list = []json.RawMessage{}
		}
		return json.Marshal(list)
	}
	return list[0], nil
}

// single returns one given value as JSON; for a list of objects it may be several.
func (s *session) single(in *input, given string) ([]json.RawMessage, error) {
	switch in.form {
	case asBool:
		yes, err := strconv.ParseBool(given)
		return []json.RawMessage{quote(yes)}, err
	case asNumber:
		n, err := strconv.ParseFloat(given, 64) // float64 holds every number that check accepts
		return []json.RawMessage{quote(n)}, err
	}
	text := given
	if in.isText() {
		var err error
		if text, err = s.given(in, given, in.plain()); err != nil {
			return nil, err
		}
	}
	switch {
	case in.form == asObject: // of a list
		var list []json.RawMessage
		if json.Unmarshal([]byte(text), &list) == nil {
			return list, nil
		}
		if !json.Valid([]byte(text)) {
			return nil, usagef("the %s is not valid JSON: %s", in.plain(), in.sample())
		}
		return []json.RawMessage{json.RawMessage(text)}, nil
	case in.form == asJSON:
		return []json.RawMessage{loose(text)}, nil
	case in.desc.Kind() == protoreflect.BytesKind:
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return []json.RawMessage{quote(text)}, nil
}

// given reads a value from a file if it names one. Only fields of bytes accept data that is not text.
func (s *session) given(in *input, arg, what string) (string, error) {
	text, err := s.content(in.limit, arg, what)
	if err == nil && in.desc.Kind() != protoreflect.BytesKind && !utf8.ValidString(text) {
		err = usagef("the %s is not text in UTF-8; encode it first, for example with base64", what)
	}
	return text, err
}

// object merges the given JSON objects and pairs.
func (s *session) object(in *input) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, given := range in.given {
		key, value, isPair := strings.Cut(given, "=")
		if trimmed := strings.TrimSpace(given); !isPair || trimmed == "-" || strings.HasPrefix(trimmed, "@") || strings.HasPrefix(trimmed, "{") {
			text, err := s.given(in, given, in.plain())
			if err != nil {
				return nil, err
			}
			var some map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &some); err != nil || some == nil {
				return nil, usagef("the %s is neither a JSON object nor KEY=VALUE: %s", in.plain(), in.sample())
			}
			maps.Copy(all, some)
			continue
		}
		text, err := s.given(in, value, in.plain()+" "+key)
		if err != nil {
			return nil, err
		}
		if in.form == asTextPair || text != value { // the content of a file is a text
			all[key] = quote(text)
		} else {
			all[key] = loose(value)
		}
	}
	return json.Marshal(all)
}

// loose returns the text as JSON if it is JSON, otherwise as a string.
func loose(text string) json.RawMessage {
	if trimmed := strings.TrimSpace(text); trimmed != "" && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed)
	}
	return quote(text)
}

// quote encodes a text, a number or a truth value as JSON.
func quote(v any) json.RawMessage {
	data, _ := json.Marshal(v) // which cannot fail for these types
	return data
}

// sample shows how the field can be given.
func (f *field) sample() string {
	if f.desc.IsList() {
		return `give '{"key": "value"}', @FILE, or - for standard input`
	}
	return "give key=value, @FILE, or - for standard input"
}
