package driver

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// CleanText returns data as valid UTF-8. It replaces invalid bytes, and NUL bytes, which databases refuse.
func CleanText(data []byte) string {
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		return string(data)
	}
	var b strings.Builder
	b.Grow(len(data) + len(data)/8)
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == 0 {
			r = utf8.RuneError
		}
		b.WriteRune(r)
		data = data[n:]
	}
	return b.String()
}

// cleanString works like CleanText, for a string.
func cleanString(s string) string { return CleanText([]byte(s)) }

// completeRunes returns the length of data up to the last complete character.
func completeRunes(data []byte) int {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if utf8.FullRune(data[i:]) {
				break
			}
			return i
		}
	}
	return len(data)
}

// maxLastText limits a text that is joined from pieces, in bytes.
const maxLastText = 1 << 20

// appendPiece appends the piece to the text. It appends only complete characters, and none beyond maxLastText.
func appendPiece(text []byte, piece string) []byte {
	text = append(text, piece[:min(len(piece), maxLastText-len(text))]...)
	return text[:completeRunes(text)]
}

// Limits of texts, in characters.
const (
	maxSummary = 4000 // of an outcome
	maxReason  = 500  // result of reasonText
	maxOneLine = 160  // result of oneLine
)

// oneLine returns s as valid UTF-8 on one line, shortened to maxOneLine characters.
func oneLine(s string) string {
	return shorten(strings.Join(strings.Fields(cleanString(s)), " "), maxOneLine)
}

// reasonText returns s as valid UTF-8, shortened to maxReason characters.
func reasonText(s string) string { return shorten(cleanString(s), maxReason) }

// lastLine returns the last line of s with any text.
func lastLine(s string) string {
	last := ""
	for line := range strings.Lines(s) {
		if l := displayedText(line); l != "" {
			last = l
		}
	}
	return last
}

// escapePattern matches the control sequences of terminals: colors, cursor movements, titles.
var escapePattern = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[@-Z\\\\^_])")

// displayedText returns the line as a terminal finally shows it: without colors, and only with the text after the last carriage
// return.
func displayedText(line string) string {
	line = strings.TrimRight(escapePattern.ReplaceAllString(line, ""), "\r\n\t ")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	return strings.TrimSpace(line)
}

// shorten returns s without surrounding space, shortened to n characters.
func shorten(s string, n int) string {
	return fleet.Shorten(strings.TrimSpace(s), n)
}
