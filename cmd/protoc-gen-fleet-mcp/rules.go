package main

import (
	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// keywords maps protovalidate rules to JSON Schema keywords. A string of n bytes has at most n characters, so max_bytes
// gives a valid bound, though not always a tight one.
var keywords = map[protoreflect.Name]string{
	"min_len": "minLength", "max_len": "maxLength", "max_bytes": "maxLength", "pattern": "pattern", "in": "enum", "const": "const",
	"gt": "exclusiveMinimum", "gte": "minimum", "lt": "exclusiveMaximum", "lte": "maximum",
	"min_items": "minItems", "max_items": "maxItems", "unique": "uniqueItems",
	"min_pairs": "minProperties", "max_pairs": "maxProperties",
}

// formats maps protovalidate rules to JSON Schema formats.
var formats = map[protoreflect.Name]string{
	"email": "email", "hostname": "hostname", "ipv4": "ipv4", "ipv6": "ipv6", "uri": "uri", "uuid": "uuid",
}

// rules adds the JSON Schema keywords for a field's validation rules. It adds nothing to the schema of a result, because
// Fleet validates only requests.
func (s schemas) rules(o *object, r *validate.FieldRules) *object {
	if !s.input || r == nil {
		return o
	}
	kind := r.ProtoReflect().WhichOneof(r.ProtoReflect().Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return o
	}
	typed := r.ProtoReflect().Get(kind).Message() // the rules for the field's type
	fields := typed.Descriptor().Fields()
	for i := range fields.Len() { // in the order of declaration, so that the output is deterministic
		rule := fields.Get(i)
		if !typed.Has(rule) || rule.Kind() == protoreflect.MessageKind {
			continue
		}
		value := typed.Get(rule)
		if format, ok := formats[rule.Name()]; ok && value.Bool() {
			o.set("format", format)
		}
		if keyword, ok := keywords[rule.Name()]; ok {
			o.set(keyword, plain(rule, value))
		}
	}
	return o
}

// plain returns the value of a rule as JSON.
func plain(rule protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if !rule.IsList() {
		return v.Interface()
	}
	var list []any
	for i := range v.List().Len() {
		list = append(list, v.List().Get(i).Interface())
	}
	return list
}
