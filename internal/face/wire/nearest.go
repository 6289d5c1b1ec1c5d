package wire

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns the candidate that name was probably meant to be, or "" if none is close. A candidate is close if at most two
// letters, or a third of the name, are wrong. If more than one letter and more than a third are wrong, it must also begin with the
// same letter: list is close to lsit, but open is not close to nope.
func Nearest(name string, candidates []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if fold(c) == fold(name) {
			return c
		}
		if d := editDistance(name, c); d < distance && (d <= max(1, len(name)/3) || c != "" && name != "" && c[0] == name[0]) {
			best, distance = c, d
		}
	}
	return best
}

// fold returns s in lower case and without separators, so that agentName equals agent_name.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// editDistance returns the Levenshtein distance between a and b. Names of more than 64 bytes count as entirely different, because the
// work grows with the product of the lengths.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	return levenshtein.Distance(a, b, nil)
}
