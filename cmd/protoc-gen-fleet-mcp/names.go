package main

import (
	"strings"

	"fleet/cmd/internal/option"
)

// title returns a Go name as words: ShowAgentLog becomes "Show agent log".
func title(name string) string {
	words := option.SplitWords(name)
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToLower(words[i])
	}
	return strings.Join(words, " ")
}

// lowerFirst returns the name with its first letter in lower case, so that Go does not export it.
func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }
