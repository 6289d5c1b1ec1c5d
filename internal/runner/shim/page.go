package shim

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
