package shim

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"fleet/internal/place/agentfile"
)

// part is one of the files of an output.
type part struct {
	file        *os.File
	begin, size int64
}

// parts are the files of an output, in order.
type parts []part

// openParts opens the files of the output that exist.
func openParts(path string) (parts, error) {
	var offsets []int64
	var err error
	if name := filepath.Base(path); name == "output" || name == "stderr" { // only outputs have segments
		if offsets, err = segmentsOf(path); err != nil {
			return nil, err
		}
	}
	var x parts
	for i := range len(offsets) + 1 {
		p := part{}
		name := path
		if i > 0 {
			p.begin = offsets[i-1]
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
