package wire

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns the candidate that name was probably meant to be, or "" if none is close. If more than a third of the name
// is wrong, only a candidate with the same first letter is close: list for lsit, but not open for nope.
func Nearest(name string, candidates []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if fold(c) == fold(name) { // agentName for agent_name, Idle for idle
			return c
		}
		if d := edits(name, c); d < distance && (d <= max(1, len(name)/3) || c != "" && name != "" && c[0] == name[0]) {
			best, distance = c, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// edits returns the Levenshtein distance between a and b. Very long names are not compared, because the work grows with
// the product of the lengths.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	return levenshtein.Distance(a, b, nil)
}
