package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Labels are keys and values, for example env=prod, that people and programs give to agents and tasks so that a Selector can
// select them.
type Labels map[string]string

// Limits of labels.
const (
	MaxLabels     = 32  // of one agent or task
	MaxLabelKey   = 63  // in characters
	MaxLabelValue = 253 // in characters
)

// Labels may have these characters beside letters and digits. A selector has no quotes, so characters with a meaning in selectors
// must not be added.
const (
	labelKeyMarks   = "-_./"
	labelValueMarks = "-_./:@+"
)

// Validate returns INVALID_ARGUMENT if a label is not valid, or if there are too many.
func (l Labels) Validate(field string) error {
	if len(l) > MaxLabels {
		return InvalidField(field, "%s has %d labels: give at most %d", field, len(l), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(l)) {
		if err := validateKey(field, key); err != nil {
			return err
		}
		if err := validateValue(field, l[key]); err != nil {
			return err
		}
	}
	return nil
}

// checkKeyName returns an error if the name of a budget or a credential does not have the form of a label's key.
func checkKeyName(name string) error {
	if !isLabelKey(name) {
		return fmt.Errorf("name is %q: begin it with a letter or a digit, go on with letters, digits and - _ . /, and use at most %d characters", Shorten(name, 80), MaxLabelKey)
	}
	return nil
}

func isLabelKey(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return isLetterOrDigit(first) && utf8.RuneCountInString(s) <= MaxLabelKey && hasOnly(s, labelKeyMarks)
}

func isLetterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// hasOnly reports whether the text has only letters, digits and the marks.
func hasOnly(s, marks string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !isLetterOrDigit(r) && !strings.ContainsRune(marks, r) })
}

func validateKey(field, key string) error {
	if !isLabelKey(key) {
		return InvalidField(field, "%s has the key %q: begin a key with a letter or a digit, go on with letters, digits and - _ . /, and use at most %d characters",
			field, Shorten(key, 80), MaxLabelKey)
	}
	return nil
}

func validateValue(field, value string) error {
	if utf8.RuneCountInString(value) > MaxLabelValue || !hasOnly(value, labelValueMarks) {
		return InvalidField(field, "%s has the value %q: use letters, digits and - _ . / : @ +, at most %d characters",
			field, Shorten(value, 80), MaxLabelValue)
	}
	return nil
}

// With returns the labels together with others, which take precedence, and without the keys in without. It returns nil if none
// is left.
func (l Labels) With(others Labels, without ...string) Labels {
	out := Labels{}
	maps.Copy(out, l)
	maps.Copy(out, others)
	for _, key := range without {
		delete(out, key)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// String returns the labels as a selector that they match, such as "env=prod,team=web", in the order of their keys.
func (l Labels) String() string {
	parts := make([]string, 0, len(l))
	for _, key := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, key+"="+l[key])
	}
	return strings.Join(parts, ",")
}
