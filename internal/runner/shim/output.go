package shim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// headDivisor divides an output's limit: 1/headDivisor of the limit is for the beginning. The end gets the rest, because
// programs usually report their result there.
const headDivisor = 4

// segmentCount is the number of files for the end of an output. When another file is needed, the oldest one is removed.
const segmentCount = 16

// output writes the child's output unchanged to files of limited size. The beginning goes to the file itself. The rest
// goes to segments, which are named after the file and their offset. Only the last segments are kept. Data is written
// without a buffer, so the output can be followed while the child runs, and survives the supervisor.
//
// Write never fails, so that the child is always drained.
type output struct {
	path    string
	maxTail int64 // maximum size of the kept end
	minTail int64 // minimum size of the kept end, even if the end then exceeds maxTail by a segment
	onGrow  func()

	file      *os.File // nil if the next byte starts a new segment
	freeBytes int64    // in the file
	size      int64    // size of the child's output
	offsets   []int64  // offsets of the existing segments
	lostBytes int64    // bytes that could not be written
	err       error    // the first write error
}

// newOutput creates the file. It fails if the file exists. An output of at most limit bytes is kept completely. Of a
// longer output, about limit bytes are kept, and at least the parts that Excerpt returns for the limit minKept.
func newOutput(path string, limit, minKept int64, onGrow func()) (*output, error) {
	o := &output{path: path, freeBytes: limit / headDivisor, maxTail: limit - limit/headDivisor, minTail: minKept - minKept/headDivisor, onGrow: onGrow}
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
		if o.freeBytes == 0 && !o.startSegment() {
			o.size += int64(len(rest))
			o.lostBytes += int64(len(rest))
			break
		}
		piece := rest[:min(int64(len(rest)), o.freeBytes)]
		o.writeData(piece)
		o.freeBytes -= int64(len(piece))
		o.size += int64(len(piece))
		rest = rest[len(piece):]
	}
	return len(p), nil
}

// startSegment removes old segments and starts a new segment. It returns false if it cannot start one.
func (o *output) startSegment() bool {
	o.closeFile()
	if o.maxTail == 0 || o.err != nil {
		return false
	}
	segmentSize := max(1, o.maxTail/segmentCount)
	for len(o.offsets) > 1 && o.size-o.offsets[0] >= o.maxTail && o.size-o.offsets[1] >= o.minTail {
		if err := os.Remove(segmentPath(o.path, o.offsets[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.err = err // otherwise the child could fill the disk
			return false
		}
		o.offsets = o.offsets[1:]
	}
	if o.file, o.err = create(segmentPath(o.path, o.size)); o.err != nil {
		return false
	}
	if len(o.offsets) > 0 && o.size-o.offsets[0] < o.maxTail {
		segmentSize = min(segmentSize, o.maxTail-(o.size-o.offsets[0]))
	}
	o.offsets = append(o.offsets, o.size)
	o.freeBytes = segmentSize
	return true
}

func (o *output) writeData(p []byte) {
	if o.err != nil {
		o.lostBytes += int64(len(p))
		return
	}
	n, err := o.file.Write(p)
	if o.err = err; err != nil {
		o.lostBytes += int64(len(p) - n)
		return
	}
	o.onGrow()
}

// Close closes the output. Write must not be called afterwards.
func (o *output) Close() {
	o.closeFile()
	o.freeBytes = 0
}

func (o *output) closeFile() {
	if o.file == nil {
		return
	}
	if err := o.file.Close(); err != nil && o.err == nil {
		o.err = err
	}
	o.file = nil
}

// segmentPath returns the path of the segment with the offset.
func segmentPath(path string, offset int64) string {
	return path + "." + strconv.FormatInt(offset, 10)
}

// segmentOffset returns the offset of the segment that is stored in the file. It returns false if the name of the file is not that
// of a segment of the output with the path.
func segmentOffset(path, file string) (int64, bool) {
	offset, ok := strings.CutPrefix(file, filepath.Base(path)+".")
	n, err := strconv.ParseInt(offset, 10, 64)
	return n, ok && err == nil && n >= 0 && n < 1<<60
}
