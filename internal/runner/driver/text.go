package driver

import "bytes"

const (
	maxChunk    = 32 << 10 // bytes of output in one piece
	maxLastLine = 16 << 10 // size of the kept part of the last line, in bytes
)

// textParser parses output that is plain text. Its summary is the last line with any text.
type textParser struct {
	line []byte // the start of the incomplete line
	last string // the last line with any text
}

// Parse implements Parser. It waits for complete lines, unless a line is longer than maxChunk.
func (p *textParser) Parse(data []byte, final bool) (int, []Piece) {
	if i := bytes.LastIndexByte(data[:min(len(data), maxChunk)], '\n'); i >= 0 {
		return p.parsePart(data, i+1)
	}
	switch {
	case len(data) >= maxChunk:
		return p.parsePart(data, completeRunes(data[:maxChunk]))
	case final:
		return p.parsePart(data, len(data))
	}
	return 0, nil
}

// Flush implements Flusher.
func (p *textParser) Flush(data []byte) (int, []Piece) {
	return p.parsePart(data, completeRunes(data[:min(len(data), maxChunk)]))
}

// Skip implements Skipper.
func (p *textParser) Skip(data []byte) []Piece {
	_, pieces := p.parsePart(data, len(data))
	p.endLine() // the output after the gap does not belong to this line
	return pieces
}

// parsePart parses the first n bytes of data.
func (p *textParser) parsePart(data []byte, n int) (int, []Piece) {
	if n == 0 {
		return 0, nil
	}
	p.recordLastLine(data[:n])
	return n, []Piece{{Text: CleanText(data[:n])}}
}

// recordLastLine records the last complete line that has any text, and the start of an incomplete line. It searches from the end,
// because data can have many lines.
func (p *textParser) recordLastLine(data []byte) {
	first := bytes.IndexByte(data, '\n')
	if first < 0 {
		p.line = append(p.line, data[:min(len(data), maxLastLine-len(p.line))]...)
		return
	}
	p.line = append(p.line, data[:min(first, maxLastLine-len(p.line))]...)
	p.endLine()
	whole, rest := data[first+1:], data[first+1:]
	if last := bytes.LastIndexByte(whole, '\n'); last >= 0 {
		whole, rest = whole[:last], whole[last+1:]
		for {
			begin := bytes.LastIndexByte(whole, '\n')
			if p.recordLine(whole[begin+1:]) || begin < 0 {
				break
			}
			whole = whole[:begin]
		}
	}
	p.line = append(p.line, rest[:min(len(rest), maxLastLine)]...)
}

// endLine ends the incomplete line, and records it as the last line.
func (p *textParser) endLine() {
	p.recordLine(p.line)
	p.line = p.line[:0]
}

// recordLine records the line as the last line if it has any text, and reports whether it has.
func (p *textParser) recordLine(line []byte) bool {
	line = line[:min(len(line), maxLastLine)]
	if len(bytes.TrimSpace(line)) == 0 {
		return false
	}
	s := displayedText(CleanText(line))
	if s != "" {
		p.last = s
	}
	return s != ""
}

func (p *textParser) Result(e Exit) Result {
	p.endLine()
	o := exitOutcome(e, p.last)
	o.Summary = shorten(p.last, maxSummary)
	return Result{Outcome: o}
}
