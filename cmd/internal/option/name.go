package option

import (
	"strings"
	"unicode"
)

// SplitWords splits a Go name into words: ShowAgentLog into Show, Agent, Log, and GetHTTPLog into Get, HTTP, Log.
func SplitWords(name string) []string {
	var words []string
	runes, start := []rune(name), 0
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words, start = append(words, string(runes[start:i])), i
		}
	}
	return append(words, string(runes[start:]))
}

// ToolName converts a method's Go name to the name of its MCP tool: ShowAgentLog becomes show_agent_log.
func ToolName(name string) string { return strings.ToLower(strings.Join(SplitWords(name), "_")) }
