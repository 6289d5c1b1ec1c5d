package app

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// checkFile returns an error for content of a configuration file that the YAML library misreads. The library ignores further
// documents. It cuts off numbers and durations in an unexpected form, or returns an error that does not name the key.
// A tag without a value makes it panic. The text of the error begins with the number of a line.
func checkFile(b []byte) error {
	begun := false
	for _, t := range lexer.Tokenize(string(b)) { // the parser leaves out empty documents
		switch {
		case t.Type == token.CommentType:
		case t.Type == token.TagType:
			return fmt.Errorf("%d: the tag %s has no use here: remove it", t.Position.Line, t.Value)
		case t.Type == token.DocumentHeaderType && begun:
			return fmt.Errorf("%d: the file has a second document: remove the line with ---", t.Position.Line)
		default:
			begun = true
		}
	}
	file, err := parser.ParseBytes(b, 0)
	if err != nil || len(file.Docs) == 0 {
		return nil //nolint:nilerr // there is nothing to check, or reading the file fails with the same error
	}
	return checkNode(file.Docs[0].Body, reflect.TypeFor[Config](), "")
}

var (
	durationType     = reflect.TypeFor[time.Duration]()
	unmarshalerTypes = []reflect.Type{reflect.TypeFor[yaml.InterfaceUnmarshaler](), reflect.TypeFor[yaml.BytesUnmarshaler](), reflect.TypeFor[yaml.NodeUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()}
)

// checkNode checks the value of the key, which will be read into the type. The node is nil in an empty document.
func checkNode(node ast.Node, t reflect.Type, key string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, u := range unmarshalerTypes {
		if reflect.PointerTo(t).Implements(u) {
			return nil // the type checks its values itself
		}
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		return checkNode(n.Value, t, key)
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := checkEntry(v, t, key); err != nil {
				return err
			}
		}
	case *ast.MappingValueNode:
		return checkEntry(n, t, key)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			if t.Kind() == reflect.Slice {
				if err := checkNode(v, t.Elem(), key); err != nil {
					return err
				}
			}
		}
	case ast.ScalarNode:
		return checkScalar(n, t, key)
	}
	return nil
}

// checkEntry checks an entry of the mapping that is the value of the key. The mapping will be read into the type.
func checkEntry(v *ast.MappingValueNode, t reflect.Type, key string) error {
	name := v.Key.GetToken().Value
	in := strings.TrimPrefix(key+"."+name, ".")
	switch t.Kind() {
	case reflect.String: // for example [oidc:staff]
		return fmt.Errorf("%d: %s is not a text: put it into quotes if it has a colon", v.GetToken().Position.Line, key)
	case reflect.Map:
		return checkNode(v.Value, t.Elem(), in)
	case reflect.Struct:
		if f, ok := fieldOf(t, name); ok {
			return checkNode(v.Value, f, in)
		}
	}
	return nil // an unknown key is an error when the file is read
}

// fieldOf returns the type of the field that has the name in YAML, in t or in an inline field of t.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		switch tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case tag == name && tag != "-":
			return f.Type, true
		case options == "inline":
			if found, ok := fieldOf(f.Type, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// checkScalar checks that a duration has a unit, and that an integer is written as one. null is always valid.
func checkScalar(n ast.ScalarNode, t reflect.Type, key string) error {
	_, null := n.(*ast.NullNode)
	text := n.GetToken().Value
	wrong := func(want string) error {
		return fmt.Errorf("%d: %s is %q: give %s", n.GetToken().Position.Line, key, text, want)
	}
	switch {
	case null:
	case t == durationType:
		if _, err := time.ParseDuration(text); err != nil { // which accepts 0 without a unit
			return wrong("a duration, such as 30s, 10m or 24h")
		}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		if _, whole := n.(*ast.IntegerNode); !whole {
			return wrong("a whole number, such as 10737418240")
		}
	}
	return nil
}
