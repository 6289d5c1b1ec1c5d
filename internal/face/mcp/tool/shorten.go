package tool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// minText is how much of a text is kept, in bytes, as long as leaving out list items can make the answer fit.
const minText = 200

// shortener makes a message fit if it can. It first leaves out items of the lists that have a Cut. It then shortens the longest texts to
// the same length, but not below minText, and leaves out items of the largest lists. Finally it shortens texts below minText.
type shortener struct {
	message, request protoreflect.Message
	cuts             []Cut
	untouched        string // path of a text that is not shortened; "" if there is none
	maxBytes         int    // bytes of JSON

	shortened []keptPart
	omitted   map[string]int // how many items shortenLists has left out, by the path of the list
}

// keptPart is the part of a field that the answer holds.
type keptPart struct {
	path        string
	end         string // "first" or "last"
	unit        string // "items" or "bytes"
	kept, total int    // in units
}

// errTooLarge is returned for an answer that cannot be shortened enough.
var errTooLarge = errors.New("the answer does not fit into the result of a tool: use REST, gRPC or the fleet command")

// shorten makes the message fit and returns its JSON, or errTooLarge.
func (s *shortener) shorten() ([]byte, error) {
	b, err := s.marshal()
	if err != nil || len(b) <= s.maxBytes {
		return b, err
	}
	for _, c := range s.cuts {
		switch {
		case c.KeepLast:
			err = s.keepLast(c, len(b))
		case c.Cursor != "":
			err = s.keepFirst(c)
		}
		if err != nil {
			return nil, err
		}
		if b, err = s.marshal(); err != nil || len(b) <= s.maxBytes {
			return b, err
		}
	}
	if fits := s.shortenTexts(len(b), minText); fits {
		return s.marshal()
	}
	if b, err = s.shortenLists(); err != nil || len(b) <= s.maxBytes {
		return b, err
	}
	if s.shortenTexts(len(b), 0) {
		return s.marshal()
	}
	if s.untouched != "" { // the service ignored the limit
		s.untouched = ""
		return s.shorten()
	}
	return nil, errTooLarge
}

func (s *shortener) marshal() ([]byte, error) { return wire.Marshal(s.message.Interface()) }

// keepLast leaves out the first items of a list. The items that it keeps may fill the room that the rest of the answer leaves,
// or a quarter of the result if that is more.
func (s *shortener) keepLast(c Cut, size int) error {
	in, f := parentAt(s.message, c.Field)
	if f == nil || !in.Has(f) {
		return nil
	}
	rest, err := sizeWithout(s.message.Interface(), c.Field)
	if err != nil {
		return err
	}
	list, room := in.Get(f).List(), max(s.maxBytes-rest, s.maxBytes/4)
	kept, used := 0, 0
	for i := list.Len() - 1; i >= 0; i-- {
		n, err := itemSize(list.Get(i))
		if err != nil {
			return err
		}
		if used += n; used > room {
			break
		}
		kept++
	}
	s.noteCut(c.Field, "last", kept, list.Len(), "items")
	for i := range kept {
		list.Set(i, list.Get(list.Len()-kept+i))
	}
	list.Truncate(kept)
	return nil
}

// keepFirst leaves out the last items of a list, but keeps at least one. It sets the response's cursor to that of the last item that it
// keeps.
func (s *shortener) keepFirst(c Cut) error {
	in, f := parentAt(s.message, c.Field)
	if f == nil || !in.Has(f) {
		return nil
	}
	rest, err := sizeWithout(s.message.Interface(), c.Field)
	if err != nil {
		return err
	}
	list := in.Get(f).List()
	kept, err := itemsThatFit(list, s.maxBytes-rest, s.maxBytes, false)
	if kept = max(1, kept); err != nil || kept >= list.Len() {
		return err
	}
	list.Truncate(kept)
	s.setCursor(c.Field)
	return nil
}

// setCursor sets the response's cursor to that of the list's last item, if the list at the path has a Cut with a Cursor.
func (s *shortener) setCursor(path string) {
	for _, c := range s.cuts {
		if c.Field != path || c.Cursor == "" {
			continue
		}
		in, f := parentAt(s.message, path)
		list := in.Get(f).List()
		item := list.Get(list.Len() - 1).Message()
		cursor := item.Descriptor().Fields().ByName(protoreflect.Name(c.ItemCursor))
		in.Set(in.Descriptor().Fields().ByName(protoreflect.Name(c.Cursor)), item.Get(cursor))
	}
}

// shortenTexts cuts the longest texts to the same length: the largest length that fits, but not less than minLength. It
// reports whether the message then fits.
func (s *shortener) shortenTexts(size, minLength int) bool {
	var texts []textField
	eachText(s.message, "", func(t textField) {
		if t.path != s.untouched && len(t.value) > minLength {
			texts = append(texts, t)
		}
	})
	fixed := size
	for i := range texts {
		_, texts[i].jsonSize = jsonPrefix(texts[i].value, len(texts[i].value))
		fixed -= texts[i].jsonSize
	}
	total := func(n int) int {
		sum := fixed
		for _, t := range texts {
			if len(t.value) <= n {
				sum += t.jsonSize
			} else if _, size := jsonPrefix(t.value, n); sum <= s.maxBytes {
				sum += size
			}
		}
		return sum
	}
	length, high := minLength, s.maxBytes
	fits := total(length) <= s.maxBytes
	for fits && length < high {
		if middle := (length + high + 1) / 2; total(middle) <= s.maxBytes {
			length = middle
		} else {
			high = middle - 1
		}
	}
	for _, t := range texts {
		if len(t.value) <= length {
			continue
		}
		cut, _ := jsonPrefix(t.value, length)
		t.set(cut)
		s.setNextOffset(t.path, len(cut))
		s.noteCut(t.path, "first", len(cut), len(t.value), "bytes")
	}
	return fits
}

// setNextOffset sets the offset of a text's next portion, if the response has a field for it. This makes the response longer by a few
// digits, for which noteBytes has room.
func (s *shortener) setNextOffset(path string, kept int) {
	for _, c := range s.cuts {
		if c.Field != path || c.NextOffset == "" {
			continue
		}
		in, _ := parentAt(s.message, path)
		if f := s.request.Descriptor().Fields().ByName(protoreflect.Name(c.Offset)); f != nil {
			kept += int(s.request.Get(f).Int())
		}
		in.Set(in.Descriptor().Fields().ByName(protoreflect.Name(c.NextOffset)), protoreflect.ValueOfInt32(int32(kept))) //nolint:gosec // texts are smaller
	}
}

// shortenLists repeatedly leaves out the last items of the largest list, until the message fits or no list has more than one item. It
// returns the JSON.
func (s *shortener) shortenLists() ([]byte, error) {
	if s.omitted == nil {
		s.omitted = map[string]int{}
	}
	for {
		b, err := s.marshal()
		if err != nil {
			return nil, err
		}
		largest := listField{}
		if len(b) > s.maxBytes {
			eachList(s.message, "", func(l listField) {
				if l.len > 1 && l.size > largest.size {
					largest = l
				}
			})
		}
		if largest.len == 0 {
			return b, nil
		}
		share := float64(s.maxBytes) / float64(len(b))
		kept := max(1, min(largest.len-1, int(float64(largest.len)*share)))
		largest.truncate(kept)
		s.setCursor(largest.path)
		s.omitted[largest.path] += largest.len - kept
	}
}

// noteCut notes that the answer holds only a part of a field. If an earlier note says that the field was shortened to the
// length total, noteCut changes that note.
func (s *shortener) noteCut(path, end string, kept, total int, unit string) {
	if kept == total {
		return
	}
	for i := range s.shortened {
		if p := &s.shortened[i]; p.path == path && p.unit == unit && p.kept == total {
			p.kept = kept
			return
		}
	}
	s.shortened = append(s.shortened, keptPart{path: path, end: end, unit: unit, kept: kept, total: total})
}

// note returns the note that tells the caller which fields were shortened; "" if only a cursor was set. It names at most two of the
// shortened texts and lists, to stay small.
func (s *shortener) note() string {
	var notes []string
	for _, p := range s.shortened[:min(2, len(s.shortened))] {
		notes = append(notes, fmt.Sprintf("%s has its %s %d of %d %s", p.path, p.end, p.kept, p.total, p.unit))
	}
	for _, path := range slices.Sorted(maps.Keys(s.omitted)) {
		notes = append(notes, fmt.Sprintf("%s lacks its last %d items", path, s.omitted[path]))
	}
	if len(notes) == 0 {
		return ""
	}
	if more := len(s.shortened) - 2; more > 0 {
		notes = append(notes, fmt.Sprintf("%d more fields were shortened", more))
	}
	text := strings.Join(notes, "; ")
	text, _ = jsonPrefix(text, noteBytes/2)
	return "This answer was shortened to fit: " + text + ". REST, gRPC and the fleet command return the whole answer."
}
