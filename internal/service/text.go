package service

import (
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// checkText checks a caller's text: not empty, not too large, and valid UTF-8.
func checkText(r fleet.Reason, field, what, text string) error {
	if fleet.IsBlank(text) {
		return fleet.Invalid(r, field, "%s is empty: say in %s what is to be done", what, field)
	}
	return checkSize(field, what, text)
}

func checkSize(field, what, text string) error {
	if len(text) > fleet.MaxText {
		return fleet.Invalid(fleet.ReasonInvalidArgument, field, "%s has %d bytes, and at most %d are taken: put the rest into a file the agent can read", what, len(text), fleet.MaxText)
	}
	if strings.ContainsRune(text, 0) {
		return fleet.Invalid(fleet.ReasonInvalidArgument, field, "%s contains a NUL character, which no program can be given: remove it", what)
	}
	if !utf8.ValidString(text) {
		return fleet.Invalid(fleet.ReasonInvalidArgument, field, "%s is not valid UTF-8 text", what)
	}
	return nil
}
