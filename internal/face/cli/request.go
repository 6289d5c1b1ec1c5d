package cli

import (
	"encoding/json"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// newRequest builds the method's request from the inputs that are set. The server checks whether the values are allowed.
func (s *session) newRequest(m *method, inputs []*input) (proto.Message, error) {
	req := m.requestType.New()
	for _, in := range inputs {
		if in.isSet {
			if err := s.setField(req, in); err != nil {
				return nil, err
			}
		}
	}
	return req.Interface(), nil
}

// setField sets the field of the request to the value of the input. If the value names a file or
// standard input, setField reads the text from there.
func (s *session) setField(req protoreflect.Message, in *input) error {
	switch {
	case in.notation == asObject:
		object, err := s.readObject(in)
		if err != nil {
			return err
		}
		return wire.Unmarshal(object, req.Mutable(in.desc).Message().Interface())
	case in.desc.IsList():
		for _, text := range in.texts {
			req.Mutable(in.desc).List().Append(protoreflect.ValueOfString(text))
		}
		return nil
	case in.acceptsFile():
		text, err := s.readText(in.limit, in.texts[0], in.nameInSentence())
		if err == nil {
			req.Set(in.desc, protoreflect.ValueOfString(text))
		}
		return err
	}
	v, err := in.parse(in.texts[0])
	if err == nil {
		req.Set(in.desc, v)
	}
	return err
}

// readObject merges the given JSON objects and KEY=VALUE pairs into one JSON object.
func (s *session) readObject(in *input) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, arg := range in.texts {
		key, value, isPair := strings.Cut(arg, "=")
		if trimmed := strings.TrimSpace(arg); !isPair || trimmed == "-" || strings.HasPrefix(trimmed, "@") || strings.HasPrefix(trimmed, "{") {
			text, err := s.readText(in.limit, arg, in.nameInSentence())
			if err != nil {
				return nil, err
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
				return nil, usagef("the %s is neither a JSON object nor KEY=VALUE: give key=value, @FILE, or - for standard input", in.nameInSentence())
			}
			maps.Copy(all, object)
			continue
		}
		text, err := s.readText(in.limit, value, in.nameInSentence()+" "+key)
		if err != nil {
			return nil, err
		}
		all[key] = json.RawMessage(strings.TrimSpace(text))
		if text != value || !json.Valid(all[key]) { // the value is not JSON, or not given directly: it becomes a JSON string
			if all[key], err = json.Marshal(text); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(all)
}
