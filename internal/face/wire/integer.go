package wire

import (
	"errors"
	"strconv"
	"strings"
)

var (
	errNotInteger = errors.New("not a whole number")
	errTooLarge   = errors.New("more than 64 bits")
)

// readInteger reads a whole number from least to most. If allowQuotes is set, the number may be in quotes.
func (r *reader) readInteger(least, most int64, allowQuotes bool) (int64, bool) {
	if r.err != nil {
		return 0, false
	}
	c := r.peek()
	begin := r.pos
	var text []byte
	ok := false
	switch {
	case c == '-' || isDigit(c):
		text, ok = r.scanNumber()
	case c == '"' && allowQuotes:
		if text, ok = r.scanString(); ok && !isNumber(text) {
			r.pos, ok = begin, false
			r.failType("a whole number")
		}
	default:
		r.failType("a whole number")
	}
	if !ok {
		return 0, false
	}
	n, err := parseInteger(string(text))
	switch {
	case errors.Is(err, errNotInteger):
		r.fail("%s must be a whole number, got %s", r.path(), Shorten(string(text)))
	case err != nil || n < least || n > most:
		r.fail("%s must be a whole number from %d to %d, got %s", r.path(), least, most, Shorten(string(text)))
	}
	return n, r.err == nil
}

// isNumber reports whether s is a number of JSON.
func isNumber(s []byte) bool {
	r := reader{data: s}
	_, ok := r.scanNumber()
	return ok && r.pos == len(s)
}

// parseInteger returns the value of a JSON number. It accepts every notation of a whole number: 100, 1e2, 100.0. The error is
// errNotInteger or errTooLarge.
func parseInteger(number string) (int64, error) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, nil
	}
	mantissa, power := number, 0
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		mantissa = number[:at]
		power, _ = strconv.Atoi(number[at+1:]) // on overflow, Atoi returns the largest or the smallest int, which are out of range too
	}
	digits, negative := strings.CutPrefix(mantissa, "-")
	digits, fraction, _ := strings.Cut(digits, ".")
	all := strings.TrimLeft(digits+fraction, "0")
	significant := strings.TrimRight(all, "0")
	switch zeros := len(all) - len(significant) - len(fraction); {
	case significant == "":
		return 0, nil
	case power < -zeros:
		return 0, errNotInteger
	case power > 20:
		return 0, errTooLarge
	default:
		significant += strings.Repeat("0", power+zeros)
	}
	if negative {
		significant = "-" + significant
	}
	n, err := strconv.ParseInt(significant, 10, 64)
	if err != nil {
		return 0, errTooLarge
	}
	return n, nil
}
