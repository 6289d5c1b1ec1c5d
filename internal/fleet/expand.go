package fleet

import (
	"regexp"
	"strings"
)

var variableNamePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Expand replaces each "${NAME}" in the text with the variable's value from lookup. It returns an INVALID_ARGUMENT error that
// names the variable if lookup does not know it. A "$" without a following "{" stays. Errors never contain values.
func Expand(text string, lookup func(name string) (value string, ok bool)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !variableNamePattern.MatchString(name) {
			return "", Errorf(ReasonInvalidArgument, "\"${\" is not followed by the name of a variable and \"}\": write it as in \"${API_KEY}\"")
		}
		value, ok := lookup(name)
		if !ok {
			return "", Errorf(ReasonInvalidArgument, "the variable %s is not set in the server's environment, or is reserved for the server: set it and start the server again", name).With("variable", name)
		}
		b.WriteString(value)
		text = after
	}
}

// IsReservedVariable reports whether the variable of the server's environment may hold a secret of the server. Such a variable must not be
// passed on.
func IsReservedVariable(name string) bool {
	return strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_")
}
