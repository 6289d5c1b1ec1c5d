package driver

import (
	"encoding/json"
	"strings"
)

// unknownLines remembers lines of a program's output that the parser does not know, to explain a run without a result.
type unknownLines struct {
	known   bool   // an event was understood
	first   string // the first unknown line, if no event preceded it
	garbage string // the last line that is not an event
}

// notEvent handles a line that is not an event of a known format. A line that is not JSON is output of the program.
func (u *unknownLines) notEvent(line []byte) []Piece {
	u.skip(line)
	if line[0] == '{' && json.Valid(line) {
		return nil // an event in an unknown format
	}
	text := Clean(line)
	u.garbage = plain(text)
	return []Piece{{Text: text + "\n"}}
}

// skip handles an event of an unknown type.
func (u *unknownLines) skip(line []byte) {
	if !u.known && u.first == "" {
		u.first = Clean(line[:min(len(line), maxReason)])
	}
}

// unknownOutput returns the reason of a failure with unknown or incomplete output. why is the program's own reason, and
// first its first unknown line; both may be empty. version is the program's version, if known.
func unknownOutput(why, first, program, version, tested string) string {
	if why == "" {
		why = "this version of " + strings.TrimSpace(program+" "+version) + " says nothing that Fleet knows"
		if first = oneLine(valid(first)); first != "" {
			why += ", but " + shorten(first, maxUnknownShown)
		}
	}
	if tested == "" {
		return why
	}
	return why + "; tested with " + program + " " + tested
}

// maxUnknownShown limits how much unknown output is shown, in characters.
const maxUnknownShown = 80
