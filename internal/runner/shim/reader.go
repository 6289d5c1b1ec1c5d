package shim

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fleet/internal/place/agentfile"
)

// Reader reads an output while it grows.
type Reader struct {
	path       string
	file       *os.File
	fileOffset int64 // where file begins in the output; -1 for the first file, which precedes all segments
	offset     int64 // offset of the next byte to read
}

// Reader returns a reader for the output with the name, from its beginning. If the first file of the output
// exists already, the reader can still read it after the run was removed.
func (r Run) Reader(name string) *Reader {
	x := &Reader{path: r.Path(name), fileOffset: -1}
	_ = x.open() // Read tries again
	return x
}

func (r *Reader) open() error {
	if r.file != nil {
		return nil
	}
	f, err := agentfile.Open(r.path)
	if isAbsent(err) {
		return nil
	}
	r.file = f
	return err
}

// isAbsent reports whether err means that the file does not exist, or that the agent has replaced it.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, agentfile.ErrReplaced)
}

// Read reads more output. n and skipped are 0 if there is no more output yet. If skipped is not 0, that many bytes are
// missing before the next bytes.
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
		if isAbsent(err) {
			continue // the segment was removed, because there is a newer one
		}
		if err != nil {
			return 0, 0, err
		}
		_ = r.file.Close()
		r.file, r.fileOffset = f, next
		if skipped := next - r.offset; skipped > 0 {
			r.offset = next
			return 0, skipped, nil
		}
	}
}

func (r *Reader) read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	r.offset += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// next returns the offset of the next segment, or -1 if there is no next segment.
func (r *Reader) next() (int64, error) {
	all, err := segmentsOf(r.path)
	for _, begin := range all {
		if begin > r.fileOffset && begin >= r.offset {
			return begin, err
		}
	}
	return -1, err
}

// Close closes the file that the reader has open. The reader must not be used afterwards.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// segmentsOf returns the offsets of the output's segments, in order.
func segmentsOf(path string) ([]int64, error) {
	entries, err := agentfile.ReadDir(filepath.Dir(path))
	if isAbsent(err) {
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
