package shim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// headShare is the part of an output's limit that its beginning gets; its end gets the rest, since a program tells at the
// end how it went.
const headShare = 4

// segments is how many files the end of an output is spread over. When another one is needed, the oldest is removed.
const segments = 16

// output writes what a child puts out to files of limited size, byte for byte. The beginning goes to the file itself.
// What comes after that goes to segments, named after the file and the offset at which they begin; of these, the last
// ones are kept. Everything is on the disk at once, so it can be followed while the child runs, and is there when the
// supervisor is killed.
//
// Writes never fail, so that whoever feeds it goes on draining the child.
type output struct {
	path  string
	most  int64 // bytes of the end that are kept at most
	least int64 // bytes of the end that are kept at least, even if that is one segment more than most
	grown func()

	file  *os.File // nil: the next byte begins a new segment
	room  int64    // bytes that still go to the file
	size  int64    // bytes that the child has put out
	begun []int64  // offsets of the segments that are there
	lost  int64    // bytes that could not be written
	err   error    // the first one of the files
}

// newOutput makes the file. A file that is there already is an error. An output of at most limit bytes is kept whole. Of a
// longer one, at most limit bytes are kept, and as much of the beginning and the end as Keep returns for the limit least.
func newOutput(path string, limit, least int64, grown func()) (*output, error) {
	o := &output{path: path, room: limit / headShare, most: limit - limit/headShare, least: least - least/headShare, grown: grown}
	var err error
	o.file, err = create(path)
	return o, err
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if o.room == 0 && !o.next() {
			o.size += int64(len(rest))
			o.lost += int64(len(rest))
			break
		}
		now := rest[:min(int64(len(rest)), o.room)]
		o.put(now)
		o.room -= int64(len(now))
		o.size += int64(len(now))
		rest = rest[len(now):]
	}
	return len(p), nil
}

// next begins a segment, and removes those that are not needed any more.
func (o *output) next() bool {
	o.close()
	if o.most == 0 || o.err != nil {
		return false
	}
	segment := max(1, o.most/segments)
	for len(o.begun) > 1 && o.size-o.begun[0] >= o.most && o.size-o.begun[1] >= o.least {
		if err := os.Remove(segmentPath(o.path, o.begun[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.err = err // or the child could fill the disk
			return false
		}
		o.begun = o.begun[1:]
	}
	if o.file, o.err = create(segmentPath(o.path, o.size)); o.err != nil {
		return false
	}
	if len(o.begun) > 0 && o.size-o.begun[0] < o.most {
		segment = min(segment, o.most-(o.size-o.begun[0]))
	}
	o.begun = append(o.begun, o.size)
	o.room = segment
	return true
}

func (o *output) put(p []byte) {
	if o.err != nil {
		o.lost += int64(len(p))
		return
	}
	n, err := o.file.Write(p)
	if o.err = err; err != nil {
		o.lost += int64(len(p) - n)
		return
	}
	o.grown()
}

// Close ends the output.
func (o *output) Close() {
	o.close()
	o.room = 0
}

func (o *output) close() {
	if o.file == nil {
		return
	}
	if err := o.file.Close(); err != nil && o.err == nil {
		o.err = err
	}
	o.file = nil
}

// segmentPath is where the segment is that begins at the offset.
func segmentPath(path string, offset int64) string {
	return path + "." + strconv.FormatInt(offset, 10)
}

// segmentOffset is where the segment in the file begins; false when the file is not a segment of the output.
func segmentOffset(output, file string) (int64, bool) {
	base := filepath.Base(output) + "."
	if len(file) <= len(base) || file[:len(base)] != base {
		return 0, false
	}
	n, err := strconv.ParseInt(file[len(base):], 10, 64)
	return n, err == nil && n >= 0 && n < 1<<60
}
