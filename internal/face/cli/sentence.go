package cli

import (
	"fmt"
	"strings"
	"unicode"
)

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// lowerFirst makes the first letter of a sentence lower case, unless the second letter is a capital too, as in an abbreviation.
func lowerFirst(text string) string {
	runes := []rune(text)
	if len(runes) > 1 && unicode.IsUpper(runes[0]) && (unicode.IsLower(runes[1]) || runes[1] == ' ') {
		runes[0] = unicode.ToLower(runes[0])
	}
	return string(runes)
}

// orList joins the texts as in "a, b or c".
func orList(list []string) string { return joinWords(list, " or ") }

// andList joins the texts as in "a, b and c".
func andList(list []string) string { return joinWords(list, " and ") }

func joinWords(list []string, lastSeparator string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + lastSeparator + list[len(list)-1]
}

// helpWidth is the width of help texts, in columns.
const helpWidth = 80

// noBreakSpace is a space at which wrapText does not break a line.
const noBreakSpace = "\u00a0"

// wrapText breaks a text into lines of at most width characters. A longer word gets a line of its own. If width is 0, the text becomes one
// line.
func wrapText(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '\n' }) {
		length := len([]rune(word))
		switch {
		case column == 0:
		case width > 0 && column+1+length > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return strings.ReplaceAll(b.String(), noBreakSpace, " ")
}

// firstSentence returns the first sentence of a text without its full stop.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, ". ")
	return strings.TrimSuffix(text, ".")
}

// replaceMarked replaces each text between the marks begin and end, with the marks, by the result of replace.
func replaceMarked(text, begin, end string, replace func(string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, begin)
		inside, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before + replace(inside))
		text = after
	}
}

// oneLine returns the text with each run of white space, such as a line break, replaced by one space.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// inParentheses returns the text in parentheses, with a space before it, or "" for no text.
func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + printable(text) + ")"
}

// afterColon returns the text with a colon before it, or "" for no text.
func afterColon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + printable(text)
}

// countText returns the number with the noun, in the plural unless n is 1: "2 files".
func countText(n int32, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
