package postgres

import (
	"strings"
	"unicode/utf8"
)

// escapeBase is the first of 256 private-use characters. Postgres refuses text that is not UTF-8 or contains a zero
// byte, but agents can produce such text. Each refused byte b is stored as the character escapeBase+b. If the text
// already contains one of these characters, each byte of that character is stored in the same way.
const escapeBase = 0x10FE00

// escapeMark is the first two bytes, in UTF-8, of every character from escapeBase on. Text without them needs no
// unescaping.
const escapeMark = "\xf4\x8f"

// escape returns the text in the form in which it is stored in Postgres, see escapeBase.
func escape(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.Contains(s, escapeMark) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == utf8.RuneError && n == 1 || isEscape(r) {
			for _, c := range []byte(s[i : i+n]) {
				b.WriteRune(escapeBase + rune(c))
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unescape reverses escape.
func unescape(s string) string {
	if !strings.Contains(s, escapeMark) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isEscape(r) {
			b.WriteByte(byte(r - escapeBase))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isEscape(r rune) bool { return r >= escapeBase && r < escapeBase+0x100 }
