package fleet

import (
	"slices"
	"strings"
)

// Selector selects agents and tasks by their labels: those that match all its requirements. The empty Selector selects all.
type Selector []Requirement

// Requirement is a condition on the label with the key: that it has one of the values or, if Values is nil, any value. Not
// reverses the condition, so it also holds without the label.
type Requirement struct {
	Key    string
	Values []string
	Not    bool
}

// MaxSelector is the longest text of a selector, in bytes.
const MaxSelector = 4096

// Matches reports whether the labels match all requirements.
func (s Selector) Matches(l Labels) bool {
	for _, r := range s {
		value, has := l[r.Key]
		if r.Values != nil {
			has = has && slices.Contains(r.Values, value)
		}
		if has == r.Not {
			return false
		}
	}
	return true
}

// RequiresLabel reports whether only something with labels can match.
func (s Selector) RequiresLabel() bool {
	return slices.ContainsFunc(s, func(r Requirement) bool { return !r.Not })
}

// ParseSelector returns the selector of a text such as "env=prod,team in (web,api),stage!=test,owned,!old". The error is
// INVALID_ARGUMENT for the field.
func ParseSelector(field, text string) (s Selector, err error) {
	if len(text) > MaxSelector {
		return nil, InvalidField(field, "%s has %d bytes: give at most %d", field, len(text), MaxSelector)
	}
	for _, part := range splitSelector(text) {
		r, ok := parseRequirement(strings.TrimSpace(part))
		if !ok {
			return nil, InvalidField(field, "%s has %q: give conditions such as env=prod, env!=test, team in (web,api), team notin (web), owned and !owned, with commas between them",
				field, Shorten(strings.TrimSpace(part), 80))
		}
		if err := validateKey(field, r.Key); err != nil {
			return nil, err
		}
		for _, v := range r.Values {
			if err := validateValue(field, v); err != nil {
				return nil, err
			}
		}
		s = append(s, r)
	}
	return s, nil
}

// splitSelector splits the text at its commas outside parentheses. It returns nothing for a blank text.
func splitSelector(text string) (parts []string) {
	if IsBlank(text) {
		return nil
	}
	depth, begin := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// parseRequirement parses one condition of a selector. It does not check the key and the values.
func parseRequirement(text string) (r Requirement, ok bool) {
	if key, not := strings.CutPrefix(text, "!"); not {
		return Requirement{Key: strings.TrimSpace(key), Not: true}, true
	}
	if key, rest, found := strings.Cut(text, "="); found && !strings.Contains(key, "(") {
		key, not := strings.CutSuffix(key, "!")
		rest, _ = strings.CutPrefix(rest, "=") // == is the same as =
		return Requirement{Key: strings.TrimSpace(key), Values: []string{strings.TrimSpace(rest)}, Not: not}, true
	}
	words := strings.Fields(text)
	switch {
	case len(words) == 1 && !strings.ContainsAny(text, "()"):
		return Requirement{Key: text}, true
	case len(words) < 2:
		return r, false
	}
	word, list, found := strings.Cut(strings.TrimSpace(strings.TrimPrefix(text, words[0])), "(")
	list, closed := strings.CutSuffix(list, ")")
	word = strings.TrimSpace(word)
	if !found || !closed || word != "in" && word != "notin" {
		return r, false
	}
	r = Requirement{Key: words[0], Not: word == "notin", Values: []string{}}
	for v := range strings.SplitSeq(list, ",") {
		r.Values = append(r.Values, strings.TrimSpace(v))
	}
	return r, true
}
