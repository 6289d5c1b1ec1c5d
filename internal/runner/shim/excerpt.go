package shim

import (
	"bytes"
	"unicode/utf8"
)

// Excerpt is the kept part of an output or of a program's file: all of it, or its beginning and its end.
type Excerpt struct {
	Data      []byte
	GapOffset int   // position in Data of the missing bytes
	GapSize   int64 // number of missing bytes; 0 if none
}

// lineSearch is how far from the gap Excerpt searches for the end of a line, in bytes, so that the gap is between lines.
const lineSearch = 4 << 10

// Excerpt returns the content of the run's file with the name. If the content is longer than limit bytes, or
// if bytes of it are no longer kept, Excerpt returns the beginning and the end. A missing file counts as empty.
func (r Run) Excerpt(name string, limit int64) (Excerpt, error) {
	x, err := openParts(r.Path(name))
	if err != nil {
		return Excerpt{}, err
	}
	defer x.close()
	size, whole := x.size()
	if whole && size <= limit {
		data, err := x.read(0, size)
		return Excerpt{Data: data}, err
	}
	head, err := x.read(0, limit/headDivisor)
	if err != nil {
		return Excerpt{}, err
	}
	tailOffset := max(int64(len(head)), size-(limit-limit/headDivisor))
	tail, err := x.read(tailOffset, size)
	if err != nil {
		return Excerpt{}, err
	}
	if int64(len(head)+len(tail)) == size {
		return Excerpt{Data: append(head, tail...)}, nil
	}
	head, tail = head[:cutAfter(head)], tail[cutBefore(tail):]
	return Excerpt{Data: append(head[:len(head):len(head)], tail...), GapOffset: len(head), GapSize: size - int64(len(head)+len(tail))}, nil
}

// Head returns at most limit bytes from the start of the run's file with the name.
func (r Run) Head(name string, limit int64) ([]byte, error) {
	x, err := openParts(r.Path(name))
	if err != nil {
		return nil, err
	}
	defer x.close()
	return x.read(0, limit)
}

// Tail returns at most limit bytes from the end of the run's file with the name.
func (r Run) Tail(name string, limit int64) ([]byte, error) {
	x, err := openParts(r.Path(name))
	if err != nil {
		return nil, err
	}
	defer x.close()
	size, _ := x.size()
	return x.read(max(0, size-limit), size)
}

// cutAfter returns how much of the head is kept before a gap: up to the end of a line, or up to the end of a
// character if no line ends nearby.
func cutAfter(head []byte) int {
	from := max(0, len(head)-lineSearch)
	if i := bytes.LastIndexByte(head[from:], '\n'); i >= 0 {
		return from + i + 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(head); n++ {
		if i := len(head) - n; utf8.RuneStart(head[i]) {
			if !utf8.FullRune(head[i:]) {
				return i
			}
			break
		}
	}
	return len(head)
}

// cutBefore returns how much of the tail is left out after a gap: up to the start of a line, or up to the start of a
// character if no line starts nearby.
func cutBefore(tail []byte) int {
	if i := bytes.IndexByte(tail[:min(len(tail), lineSearch)], '\n'); i >= 0 && i+1 < len(tail) {
		return i + 1
	}
	for i := range min(len(tail), utf8.UTFMax) {
		if utf8.RuneStart(tail[i]) {
			return i
		}
	}
	return 0
}
