package cli

import (
	"strings"
	"unicode"
)

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// lowerFirst lowers the first letter of a sentence, unless it begins with a name or an abbreviation.
func lowerFirst(text string) string {
	runes := []rune(text)
	if len(runes) > 1 && unicode.IsUpper(runes[0]) && (unicode.IsLower(runes[1]) || runes[1] == ' ') {
		runes[0] = unicode.ToLower(runes[0])
	}
	return string(runes)
}

// orList formats "a, b or c".
func orList(list []string) string { return joined(list, " or ") }

// andList formats "a, b and c".
func andList(list []string) string { return joined(list, " and ") }

func joined(list []string, last string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + last + list[len(list)-1]
}
