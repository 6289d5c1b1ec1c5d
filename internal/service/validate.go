package service

import (
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// limitOr returns the limit from a request for a list, or standard if limit is nil. The error is INVALID_ARGUMENT if the limit
// is not between 1 and most.
func limitOr(limit *int, standard, most int) (int, error) {
	switch {
	case limit == nil:
		return standard, nil
	case *limit < 1 || *limit > most:
		return 0, fleet.InvalidField("limit", "limit is %d: give 1 to %d", *limit, most)
	}
	return *limit, nil
}

// checkText returns an error if the caller's text is blank or too large, contains NUL, or is not valid UTF-8.
func checkText(r fleet.Reason, field, what, text string) error {
	if fleet.IsBlank(text) {
		return fleet.Invalid(r, field, "%s is empty: write a text into %s", what, field)
	}
	return checkOptionalText(field, what, text)
}

// checkOptionalText works like checkText, but accepts a blank text.
func checkOptionalText(field, what, text string) error {
	if len(text) > fleet.MaxText {
		return fleet.InvalidField(field, "%s has %d bytes and the limit is %d: put the rest into a file that the agent can read", what, len(text), fleet.MaxText)
	}
	if strings.ContainsRune(text, 0) {
		return fleet.InvalidField(field, "%s contains a NUL character, which cannot be passed to programs: remove it", what)
	}
	if !utf8.ValidString(text) {
		return fleet.InvalidField(field, "%s is not valid UTF-8 text", what)
	}
	return nil
}
