package fleet

import "unicode/utf8"

// PortionRequest selects a part of a text or payload. Its fields are in bytes; a nil field is not given.
type PortionRequest struct {
	Offset *int // where it begins
	Limit  *int // at most this many bytes
	Tail   *int // only this many bytes from the end; not together with Offset
}

// Portion is a part of a text or of a payload. Its fields count bytes.
type Portion struct {
	Bytes  []byte
	Offset int // where it begins
	Size   int // of the whole text or payload
}

// End returns the offset of the end, at which the next portion begins.
func (p *Portion) End() int { return p.Offset + len(p.Bytes) }

// Whole reports whether the portion is everything.
func (p *Portion) Whole() bool { return len(p.Bytes) == p.Size }

// Validate returns INVALID_ARGUMENT if the request is not valid. prefix begins the names of the fields in its errors. A nil request is
// valid.
func (r *PortionRequest) Validate(prefix string) error {
	if r == nil {
		return nil
	}
	for _, f := range []struct {
		name  string
		value *int
		least int
	}{{"offset", r.Offset, 0}, {"limit", r.Limit, 1}, {"tail", r.Tail, 1}} {
		if f.value != nil && *f.value < f.least {
			return InvalidField(prefix+f.name, "%s is %d: give at least %d", prefix+f.name, *f.value, f.least)
		}
	}
	if r.Offset != nil && r.Tail != nil {
		return InvalidField(prefix+"tail", "%soffset and %stail are both given: a tail is counted from the end", prefix, prefix)
	}
	return nil
}

// Portion returns the requested part of b, or INVALID_ARGUMENT if the offset is beyond the end of b. It keeps UTF-8 characters whole.
// If the offset is within a character, the portion includes the whole character. If the limit is within a character, the character
// is left for the next portion, unless it would be the only one. A tail leaves out a character that it would split. A tail that is
// shorter than the last character consists of the last bytes of that character. prefix is as for Validate.
func (r *PortionRequest) Portion(b []byte, prefix string) (*Portion, error) {
	from, n := 0, len(b)
	if r.Offset != nil {
		from = *r.Offset
	}
	if from > len(b) {
		return nil, InvalidField(prefix+"offset", "%soffset is %d: there are %d bytes", prefix, from, len(b))
	}
	if r.Limit != nil {
		n = min(n, *r.Limit)
	}
	if r.Tail != nil {
		from = len(b) - min(len(b), *r.Tail, n)
		// A tail always reaches the end of b. It leaves out a character that is split at its beginning.
		if _, after := characterAt(b, from); after < len(b) {
			from = after
		}
	} else {
		from, _ = characterAt(b, from)
	}
	to := from + min(n, len(b)-from)
	before, after := characterAt(b, to)
	if to = before; to == from {
		to = after
	}
	return &Portion{Bytes: b[from:to], Offset: from, Size: len(b)}, nil
}

// characterAt returns the bounds of the character that contains the offset. If the offset is between characters or the
// data is not UTF-8, both bounds are the offset.
func characterAt(b []byte, offset int) (begin, end int) {
	for i := offset - 1; i >= 0 && i > offset-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if r, n := utf8.DecodeRune(b[i:]); (r != utf8.RuneError || n > 1) && i+n > offset {
				return i, i + n
			}
			break
		}
	}
	return offset, offset
}

// TextFrom returns the text from the offset in bytes, or the whole text if the offset is nil. If the offset is within a character, the
// result includes the whole character. It returns INVALID_ARGUMENT for the field if the text has no such offset.
func TextFrom(s string, offset *int, field string) (string, error) {
	if offset == nil {
		return s, nil
	}
	if *offset < 0 || *offset > len(s) {
		return "", InvalidField(field, "%s is %d: give 0 to %d", field, *offset, len(s))
	}
	from, _ := characterAt([]byte(s), *offset)
	return s[from:], nil
}
