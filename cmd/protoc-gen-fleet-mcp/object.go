package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// object is a JSON object that keeps the order of its keys, so that a schema reads like its proto.
type object struct {
	keys   []string
	values map[string]any
}

// set adds or replaces the value of the key, and returns o.
func (o *object) set(key string, value any) *object {
	if o.values == nil {
		o.values = map[string]any{}
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
	return o
}

// MarshalJSON writes the keys in order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{k, o.values[k]} {
			if j > 0 {
				b.WriteByte(':')
			}
			raw, err := encode(v)
			if err != nil {
				return nil, err
			}
			b.Write(raw)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode returns the value as JSON, without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// multiline returns the object, which is a schema, as JSON with a line for each property.
func (o *object) multiline() (string, error) {
	raw, err := o.MarshalJSON()
	properties, _ := o.values["properties"].(*object)
	if err != nil || properties == nil || len(properties.keys) == 0 {
		return string(raw), err
	}
	propertiesJSON, err := properties.MarshalJSON()
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	b.WriteString("{\n")
	for i, k := range properties.keys {
		line, err := (&object{}).set(k, properties.values[k]).MarshalJSON()
		if err != nil {
			return "", err
		}
		b.Write(line[1 : len(line)-1])
		if i < len(properties.keys)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteByte('}')
	return strings.Replace(string(raw), string(propertiesJSON), b.String(), 1), nil
}
