package worktree

// fileLines describes how a contribution changes a file.
type fileLines struct {
	spans     []span
	onlyLines bool // the file is text, and only its lines change: neither its path nor its mode
}

// span is a part of a file that is replaced: size lines after the first begin lines.
type span struct{ begin, size int }

func (s span) end() int { return s.begin + s.size }

// shared returns the first and the last line at which both spans change the file, counted from 1, or nil if there is none. For two
// insertions at the same place, both numbers are the line before it. An insertion within the other span counts as a change of the
// lines beside it. An insertion at the edge of the other span is not shared.
func (s span) shared(o span) *[2]int {
	switch begin, end := max(s.begin, o.begin), min(s.end(), o.end()); {
	case begin < end:
		return &[2]int{begin + 1, end}
	case begin == end && s.size == 0 && o.size == 0: // both insert lines there
		return &[2]int{begin, begin}
	case begin == end && (s.size == 0 && s.begin > o.begin && s.begin < o.end() || o.size == 0 && o.begin > s.begin && o.begin < s.end()):
		return &[2]int{begin, begin + 1}
	}
	return nil
}
