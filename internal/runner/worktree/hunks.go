package worktree

import (
	"regexp"
	"strings"

	"fleet/internal/fleet"
)

// These patterns match the lines that begin and end a conflict. The attribute conflict-marker-size changes their length, and
// git adds the path of a renamed file.
var (
	conflictBeginPattern = regexp.MustCompile(`^<{7,} ` + oursLabel + `(:.*)?\r?$`)
	conflictEndPattern   = regexp.MustCompile(`^>{7,} ` + theirsLabel + `(:.*)?\r?$`)
)

// hunks collects the lines of a file that are in conflict, with the conflict markers, at most fleet.MaxHunksSize bytes.
type hunks struct {
	text       strings.Builder
	inConflict bool
	full       bool
}

// add adds a line of the file, if it is in a conflict.
func (h *hunks) add(line string) {
	h.inConflict = h.inConflict || conflictBeginPattern.MatchString(line)
	if !h.inConflict || h.full {
		return
	}
	h.inConflict = !conflictEndPattern.MatchString(line)
	line = strings.ToValidUTF8(strings.ReplaceAll(line, "\x00", ""), "\uFFFD")
	if room := fleet.MaxHunksSize - 1 - h.text.Len(); len(line) > room {
		h.full = true
		line = strings.ToValidUTF8(line[:max(0, room)], "") // the cut may split a character
	}
	if h.text.Len() < fleet.MaxHunksSize {
		h.text.WriteString(line + "\n")
	}
}
