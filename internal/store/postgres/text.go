package postgres

import (
	"strings"
	"unicode/utf8"
)

// Postgres refuses text that is not UTF-8 or has a zero byte. Output of agents can be such text. Each byte that Postgres refuses is
// stored as the character at escapes plus the byte's value. These characters are in a private range. If they are part of the text,
// their bytes are stored in the same way.
const escapes = 0x10FE00

// escapeMark is how the UTF-8 of every character of that range begins. Few other characters begin with it.
const escapeMark = "\xf4\x8f"

// escape returns the text in the form in which it is kept.
func escape(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.Contains(s, escapeMark) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == utf8.RuneError && n == 1 || escaped(r) {
			for _, c := range []byte(s[i : i+n]) {
				b.WriteRune(escapes + rune(c))
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unescape returns the text that escape was given.
func unescape(s string) string {
	if !strings.Contains(s, escapeMark) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if escaped(r) {
			b.WriteByte(byte(r - escapes))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func escaped(r rune) bool { return r >= escapes && r < escapes+0x100 }
