package main

import (
	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// keywords maps protovalidate rules to JSON Schema keywords. A string of n bytes has at most n characters, so max_bytes
// gives a valid bound, though not always a tight one.
var keywords = map[protoreflect.Name]string{
	"min_len": "minLength", "max_len": "maxLength", "max_bytes": "maxLength", "pattern": "pattern",
	"gte": "minimum", "lte": "maximum", "min_items": "minItems", "max_items": "maxItems", "max_pairs": "maxProperties",
}

// addRules adds the JSON Schema keywords for a field's validation rules. It adds nothing to the schema of a result, because
// Fleet validates only requests, and nothing to a brief schema.
func (s schemas) addRules(o *object, r *validate.FieldRules) *object {
	if !s.isInput || s.isBrief || r == nil {
		return o
	}
	kind := r.ProtoReflect().WhichOneof(r.ProtoReflect().Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return o
	}
	typeRules := r.ProtoReflect().Get(kind).Message() // the rules for the field's type
	fields := typeRules.Descriptor().Fields()
	for i := range fields.Len() { // in the order of declaration, so that the output is deterministic
		rule := fields.Get(i)
		if !typeRules.Has(rule) || rule.Kind() == protoreflect.MessageKind {
			continue
		}
		if keyword, ok := keywords[rule.Name()]; ok {
			o.set(keyword, typeRules.Get(rule).Interface())
		}
	}
	return o
}
