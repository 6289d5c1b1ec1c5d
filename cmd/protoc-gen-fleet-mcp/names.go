package main

import (
	"strings"
	"unicode"
)

// splitWords splits a Go name into words: ShowAgentLog into Show, Agent, Log, and GetHTTPLog into Get, HTTP, Log.
func splitWords(name string) []string {
	var words []string
	runes, start := []rune(name), 0
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words, start = append(words, string(runes[start:i])), i
		}
	}
	return append(words, string(runes[start:]))
}

// snakeCase converts a method's Go name to the name of its tool: ShowAgentLog becomes show_agent_log.
func snakeCase(name string) string { return strings.ToLower(strings.Join(splitWords(name), "_")) }

// title returns a Go name as words: ShowAgentLog becomes "Show agent log".
func title(name string) string {
	words := splitWords(name)
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToLower(words[i])
	}
	return strings.Join(words, " ")
}

// lowerFirst returns the name with its first letter in lower case, so that Go does not export it.
func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }
