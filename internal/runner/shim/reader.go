package shim

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"fleet/internal/place/agentfile"
)

// Reader reads an output while it grows.
type Reader struct {
	path  string
	file  *os.File
	begun int64 // offset of the file; -1: the first file, which precedes all segments
	at    int64
}

// Reader returns a reader for the output with the name, from its beginning. It can still read the first file after the
// run was removed.
func (r Run) Reader(name string) *Reader {
	x := &Reader{path: r.Path(name), begun: -1}
	_ = x.open() // Read tries again
	return x
}

func (r *Reader) open() error {
	if r.file != nil {
		return nil
	}
	f, err := agentfile.Open(r.path)
	if absent(err) {
		return nil
	}
	r.file = f
	return err
}

// absent reports whether the file does not exist, or was replaced by the agent.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, agentfile.ErrReplaced)
}

// Read reads more output. Both results are 0 if there is no more yet. If skipped is not 0, that many bytes are missing
// before the next ones.
func (r *Reader) Read(p []byte) (n int, skipped int64, err error) {
	if err := r.open(); err != nil || r.file == nil {
		return 0, 0, err
	}
	for {
		if n, err := r.read(p); n > 0 || err != nil {
			return n, 0, err
		}
		next, err := r.next()
		if err != nil || next < 0 {
			return 0, 0, err
		}
		// The file was complete before the next one was created, so all of it can be read now.
		if n, err := r.read(p); n > 0 || err != nil {
			return n, 0, err
		}
		f, err := agentfile.Open(segmentPath(r.path, next))
		if absent(err) {
			continue // it was removed; there is a newer one
		}
		if err != nil {
			return 0, 0, err
		}
		_ = r.file.Close()
		r.file, r.begun = f, next
		if skipped := next - r.at; skipped > 0 {
			r.at = next
			return 0, skipped, nil
		}
	}
}

func (r *Reader) read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	r.at += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// next returns the offset of the next segment; -1 if there is none.
func (r *Reader) next() (int64, error) {
	all, err := segmentsOf(r.path)
	for _, begin := range all {
		if begin > r.begun && begin >= r.at {
			return begin, err
		}
	}
	return -1, err
}

// Close closes the reader.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// segmentsOf returns the offsets of the output's segments, in order.
func segmentsOf(path string) ([]int64, error) {
	entries, err := agentfile.ReadDir(filepath.Dir(path))
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []int64
	for _, e := range entries {
		if n, ok := segmentOffset(path, e.Name()); ok && e.Type().IsRegular() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Kept is the kept part of an output or of a program's file: all of it, or its beginning and its end.
type Kept struct {
	Data      []byte
	GapOffset int   // position in Data of the missing bytes
	GapSize   int64 // number of missing bytes; 0: none
}

// lineSearch is how far from the gap an end of a line is searched, so that the gap is between lines.
const lineSearch = 4 << 10

// Keep returns the content of the run's file with the name. If it is longer than the limit, it returns its beginning
// and end. A missing file is empty.
func (r Run) Keep(name string, limit int64) (Kept, error) {
	x, err := openParts(r.Path(name))
	if err != nil {
		return Kept{}, err
	}
	defer x.close()
	size, whole := x.size()
	if whole && size <= limit {
		data, err := x.read(0, size)
		return Kept{Data: data}, err
	}
	head, err := x.read(0, limit/headShare)
	if err != nil {
		return Kept{}, err
	}
	begin := max(int64(len(head)), size-(limit-limit/headShare))
	end, err := x.read(begin, size)
	if err != nil {
		return Kept{}, err
	}
	if int64(len(head)+len(end)) == size {
		return Kept{Data: append(head, end...)}, nil
	}
	head, end = head[:cutAfter(head)], end[cutBefore(end):]
	return Kept{Data: append(head[:len(head):len(head)], end...), GapOffset: len(head), GapSize: size - int64(len(head)+len(end))}, nil
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

// Page is a part of an output.
type Page struct {
	Data      []byte
	Offset    int64 // offset of Data
	Size      int64 // of the output so far
	GapOffset int64 // offset of the missing bytes
	GapSize   int64 // number of missing bytes; 0: none
}

// Page returns at most limit bytes of the output with the name, from the offset. A negative offset counts from the end.
// If bytes are missing, the page starts after them or ends before them. ok is false if nothing of the output is kept.
func (r Run) Page(name string, offset, limit int64) (p Page, ok bool, err error) {
	x, err := openParts(r.Path(name))
	if err != nil || len(x) == 0 {
		return Page{}, false, err
	}
	defer x.close()
	for _, f := range x {
		if f.begin > p.Size { // several gaps mean that segments were removed meanwhile
			if p.GapSize == 0 {
				p.GapOffset = p.Size
			}
			p.GapSize = f.begin - p.GapOffset
		}
		p.Size = max(p.Size, f.begin+f.size)
	}
	if offset < 0 {
		offset = max(0, p.Size+offset)
	}
	if p.Offset = min(offset, p.Size); p.GapSize > 0 && p.Offset >= p.GapOffset {
		p.Offset = max(p.Offset, p.GapOffset+p.GapSize)
	}
	p.Data, err = x.read(p.Offset, min(p.Size, p.Offset+limit))
	return p, true, err
}

// part is one of the files of an output.
type part struct {
	file        *os.File
	begin, size int64
}

// parts are the files of an output, in order.
type parts []part

func openParts(path string) (parts, error) {
	var all []int64
	var err error
	if name := filepath.Base(path); name == "output" || name == "stderr" { // other files belong to the program
		if all, err = segmentsOf(path); err != nil {
			return nil, err
		}
	}
	var x parts
	for i := range len(all) + 1 {
		p := part{}
		name := path
		if i > 0 {
			p.begin = all[i-1]
			name = segmentPath(path, p.begin)
		}
		if p.file, err = agentfile.Open(name); absent(err) {
			continue
		}
		var info os.FileInfo
		if err == nil {
			info, err = p.file.Stat()
		}
		if err != nil {
			x.close()
			return nil, err
		}
		p.size = info.Size()
		x = append(x, p)
	}
	return x, nil
}

func (x parts) close() {
	for _, p := range x {
		_ = p.file.Close()
	}
}

// size returns the size of the output, and whether all of it is kept.
func (x parts) size() (size int64, whole bool) {
	whole = true
	for _, p := range x {
		whole = whole && p.begin <= size
		size = max(size, p.begin+p.size)
	}
	return size, whole
}

// read returns the bytes between two offsets. If bytes are missing at the start, the result starts after them. If bytes
// are missing later, it ends before them.
func (x parts) read(from, to int64) ([]byte, error) {
	var b []byte
	for _, p := range x {
		if p.begin+p.size <= from || p.begin >= to {
			continue
		}
		if p.begin > from {
			if len(b) > 0 {
				break
			}
			from = p.begin
		}
		n := min(to, p.begin+p.size) - from
		at := len(b)
		b = append(b, make([]byte, n)...)
		got, err := p.file.ReadAt(b[at:], from-p.begin)
		b = b[:at+got]
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		from += int64(got)
	}
	return b, nil
}

// cutAfter returns how much of the beginning is kept before a gap: up to the end of a line, or else of a character.
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

// cutBefore returns how much of the end is left out after a gap: up to the start of a line, or else of a character.
func cutBefore(end []byte) int {
	if i := bytes.IndexByte(end[:min(len(end), lineSearch)], '\n'); i >= 0 && i+1 < len(end) {
		return i + 1
	}
	for i := range min(len(end), utf8.UTFMax) {
		if utf8.RuneStart(end[i]) {
			return i
		}
	}
	return 0
}
