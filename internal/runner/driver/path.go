package driver

import (
	"fmt"
	"strconv"
	"strings"
)

// path is the position of a value in a JSON object: names separated by dots, indices for lists, and conditions in
// brackets. For example, "[type=item.completed].item[type=message].text" is the text of an item, if the item is a
// message and the object reports its completion.
type path []segment

// segment is the part of a path between two dots.
type segment struct {
	name       string // empty for the object itself
	conditions []condition
}

// condition requires that the field has the value.
type condition struct{ name, value string }

// parsePath parses the text form of a path. An empty text is a nil path, which has no value.
func parsePath(s string) (path, error) {
	if s == "" {
		return nil, nil
	}
	var p path
	for rest := s; rest != ""; {
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		seg := segment{name: rest[:end]}
		rest = rest[end:]
		if strings.HasPrefix(rest, "[") {
			inside, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				return nil, fmt.Errorf("the path %q has a [ without a ]", s)
			}
			for c := range strings.SplitSeq(inside, ",") {
				name, value, ok := strings.Cut(c, "=")
				if !ok || name == "" {
					return nil, fmt.Errorf("in the path %q, %q is not a condition: write [name=value]", s, c)
				}
				seg.conditions = append(seg.conditions, condition{strings.TrimSpace(name), strings.TrimSpace(value)})
			}
			rest = after
		}
		if seg.name == "" && seg.conditions == nil {
			return nil, fmt.Errorf("the path %q has an empty name in it", s)
		}
		p = append(p, seg)
		next, dot := strings.CutPrefix(rest, ".")
		if rest != "" && (!dot || next == "") {
			return nil, fmt.Errorf("the path %q needs a name after %q", s, s[:len(s)-len(rest)])
		}
		rest = next
	}
	return p, nil
}

// find returns the value at the path in v. It returns false if there is no such value or a condition is not met.
func (p path) find(v any) (any, bool) {
	if p == nil {
		return nil, false
	}
	for _, seg := range p {
		if seg.name != "" {
			switch t := v.(type) {
			case map[string]any:
				next, ok := t[seg.name]
				if !ok {
					return nil, false
				}
				v = next
			case []any:
				i, err := strconv.Atoi(seg.name)
				if err != nil || i < 0 || i >= len(t) {
					return nil, false
				}
				v = t[i]
			default:
				return nil, false
			}
		}
		for _, c := range seg.conditions {
			m, ok := v.(map[string]any)
			if !ok || valueText(m[c.name]) != c.value {
				return nil, false
			}
		}
	}
	return v, true
}

// text returns the value at the path in v as text, or an empty text if there is no such value.
func (p path) text(v any) string {
	found, _ := p.find(v)
	return valueText(found)
}

// valueText returns a JSON value as text: a string unchanged, null as an empty text, and any other value as JSON.
func valueText(v any) string {
	switch t := v.(type) {
	case nil:
		return ""
	case string:
		return t
	}
	return string(encodeJSON(v))
}
