package shim

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"fleet/internal/place/agentfile"
)

// Page is a part of an output.
type Page struct {
	Data      []byte
	Offset    int64 // offset of Data
	Size      int64 // size of the output so far
	GapOffset int64 // offset of the missing bytes in the output
	GapSize   int64 // number of missing bytes; 0 if none; if there are several gaps, with the bytes between them
}

// Page returns at most limit bytes of the output with the name, from the offset. A negative offset counts from the end.
// If bytes are missing, the page starts after them or ends before them. ok is false if the output has no file.
func (r Run) Page(name string, offset, limit int64) (p Page, ok bool, err error) {
	x, err := openParts(r.Path(name))
	if err != nil || len(x) == 0 {
		return Page{}, false, err
	}
	defer x.close()
	for _, f := range x {
		if f.begin > p.Size { // there are several gaps if segments were removed in the meantime
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

// openParts opens the files of the output that exist.
func openParts(path string) (parts, error) {
	var all []int64
	var err error
	if name := filepath.Base(path); name == "output" || name == "stderr" { // only outputs have segments
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
		if p.file, err = agentfile.Open(name); isAbsent(err) {
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

func (p parts) close() {
	for _, f := range p {
		_ = f.file.Close()
	}
}

// size returns the size of the output, and whether all of it is kept.
func (p parts) size() (size int64, whole bool) {
	whole = true
	for _, f := range p {
		whole = whole && f.begin <= size
		size = max(size, f.begin+f.size)
	}
	return size, whole
}

// read returns the bytes between two offsets. If bytes are missing at the start, the result starts after the missing
// bytes. If bytes are missing later, the result ends before them.
func (p parts) read(from, to int64) ([]byte, error) {
	var b []byte
	for _, f := range p {
		if f.begin+f.size <= from || f.begin >= to {
			continue
		}
		if f.begin > from {
			if len(b) > 0 {
				break
			}
			from = f.begin
		}
		n := min(to, f.begin+f.size) - from
		at := len(b)
		b = append(b, make([]byte, n)...)
		got, err := f.file.ReadAt(b[at:], from-f.begin)
		b = b[:at+got]
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		from += int64(got)
	}
	return b, nil
}
