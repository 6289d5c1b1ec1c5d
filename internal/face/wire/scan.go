package wire

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The methods of this file read the tokens of JSON. The scan methods and expect report success, and set r.err if they fail.

// peek skips spaces and returns the next byte, or 0 at the end.
func (r *reader) peek() byte {
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// scanLiteral reads the word, which is true, false or null.
func (r *reader) scanLiteral(word string) bool {
	if r.err != nil || !bytes.HasPrefix(r.data[r.pos:], []byte(word)) {
		return r.failInvalid()
	}
	r.pos += len(word)
	return true
}

// expect skips spaces and reads the byte c.
func (r *reader) expect(c byte) bool {
	if r.err != nil || r.peek() != c {
		return r.failInvalid()
	}
	r.pos++
	return true
}

// members iterates over the members of an object. It yields before each value, which the caller must read, with the key in
// r.fieldName. It ends early if there is an error.
func (r *reader) members() func(yield func() bool) {
	return func(yield func() bool) {
		for range r.items('{', '}') {
			if r.peek() != '"' {
				r.failInvalid()
				return
			}
			key, ok := r.scanString()
			if !ok || !r.expect(':') {
				return
			}
			r.fieldName = key
			if !yield() {
				return
			}
		}
	}
}

// elements iterates over the values of a list. It yields before each value, which the caller must read.
func (r *reader) elements() func(yield func() bool) { return r.items('[', ']') }

// items iterates over the items between two brackets. It reads the brackets and the commas, and yields before each item.
func (r *reader) items(opening, closing byte) func(yield func() bool) {
	return func(yield func() bool) {
		if !r.expect(opening) {
			return
		}
		if r.peek() == closing {
			r.pos++
			return
		}
		for yield() && r.err == nil {
			if r.peek() == closing {
				r.pos++
				return
			}
			if !r.expect(',') {
				return
			}
		}
	}
}

// scanString reads a JSON string and returns its text. The text is a part of r.data, without a copy, unless the string has escapes.
func (r *reader) scanString() ([]byte, bool) {
	if !r.expect('"') {
		return nil, false
	}
	begin := r.pos
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; {
		case c == '"':
			r.pos++
			return r.checkUTF8(begin, r.pos-1, r.data[begin:r.pos-1])
		case c == '\\':
			return r.scanEscapedString(begin)
		case c < ' ':
			return nil, r.failInvalid()
		}
	}
	return nil, r.failInvalid()
}

// scanEscapedString reads the rest of a string from its first escape, and returns the text of the whole string. begin is the index
// of the first byte after the quote.
func (r *reader) scanEscapedString(begin int) ([]byte, bool) {
	s := make([]byte, 0, r.pos-begin+max(32, bytes.IndexByte(r.data[r.pos:], '"')))
	done := begin
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c == '"':
			r.pos++
			return r.checkUTF8(begin, r.pos-1, append(s, r.data[done:r.pos-1]...))
		case c == '\\':
			var ok bool
			if s, ok = r.scanEscape(append(s, r.data[done:r.pos]...)); !ok {
				return nil, false
			}
			done = r.pos
		case c < ' ':
			return nil, r.failInvalid()
		default:
			r.pos++
		}
	}
	return nil, r.failInvalid()
}

// checkUTF8 returns s if r.data from begin to end is UTF-8. Otherwise it sets r.err.
func (r *reader) checkUTF8(begin, end int, s []byte) ([]byte, bool) {
	if raw := r.data[begin:end]; !utf8.Valid(raw) {
		r.err = notUTF8Error(begin + firstInvalid(raw))
		return nil, false
	}
	return s, true
}

// scanEscape reads an escape, and appends the character that it stands for to s.
func (r *reader) scanEscape(s []byte) ([]byte, bool) {
	r.pos++ // the backslash
	if r.pos == len(r.data) {
		return nil, r.failInvalid()
	}
	switch c := r.data[r.pos]; c {
	case '"', '\\', '/':
		s = append(s, c)
	case 'b':
		s = append(s, '\b')
	case 'f':
		s = append(s, '\f')
	case 'n':
		s = append(s, '\n')
	case 'r':
		s = append(s, '\r')
	case 't':
		s = append(s, '\t')
	case 'u':
		return r.scanUnicode(s)
	default:
		return nil, r.failInvalid()
	}
	r.pos++
	return s, true
}

// scanUnicode reads the rest of an escape \uXXXX from the u, or two such escapes that form a surrogate pair, and appends the
// character to s.
func (r *reader) scanUnicode(s []byte) ([]byte, bool) {
	begin := r.pos - 1
	char, ok := r.scanHex()
	if !ok {
		return nil, false
	}
	if utf16.IsSurrogate(char) {
		var second rune
		if bytes.HasPrefix(r.data[r.pos:], []byte(`\u`)) {
			r.pos++
			if second, ok = r.scanHex(); !ok {
				return nil, false
			}
		}
		if char = utf16.DecodeRune(char, second); char == utf8.RuneError {
			r.err = Invalid(ReasonInvalidArgument, "", "the JSON cannot be read: %s at byte %d is half of a surrogate pair", r.data[begin:begin+6], begin)
			return nil, false
		}
	}
	return utf8.AppendRune(s, char), true
}

// scanHex reads the u of an escape and four hex digits.
func (r *reader) scanHex() (rune, bool) {
	var n rune
	for range 4 {
		r.pos++
		if r.pos == len(r.data) {
			return 0, r.failInvalid()
		}
		digit, err := strconv.ParseUint(string(r.data[r.pos]), 16, 8)
		if err != nil {
			return 0, r.failInvalid()
		}
		n = n<<4 | rune(digit)
	}
	r.pos++
	return n, true
}

// scanNumber reads a number and returns its text.
func (r *reader) scanNumber() ([]byte, bool) {
	if r.err != nil {
		return nil, false
	}
	begin := r.pos
	r.skip('-')
	ok := r.skip('0') || r.skipDigits()
	if ok && r.skip('.') {
		ok = r.skipDigits()
	}
	if ok && (r.skip('e') || r.skip('E')) {
		_ = r.skip('+') || r.skip('-')
		ok = r.skipDigits()
	}
	if !ok {
		return nil, r.failInvalid()
	}
	return r.data[begin:r.pos], true
}

// skip reads the byte c if it is next, and reports whether it was.
func (r *reader) skip(c byte) bool {
	if r.pos == len(r.data) || r.data[r.pos] != c {
		return false
	}
	r.pos++
	return true
}

// skipDigits reads all digits that are next, and reports whether there was one.
func (r *reader) skipDigits() bool {
	begin := r.pos
	for r.pos < len(r.data) && isDigit(r.data[r.pos]) {
		r.pos++
	}
	return r.pos > begin
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
