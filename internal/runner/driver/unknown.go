package driver

import (
	"encoding/json"
	"strings"
)

// unknownLines remembers lines of a program's output that the parser does not understand. They explain why a run has no
// result.
type unknownLines struct {
	hasKnownEvent bool   // an event was understood
	firstUnknown  string // the first unknown line, if no known event preceded it
	lastNonEvent  string // the last line that is not an event
}

// handleNonEvent handles a line that is not an event of a known format. It returns a line that is not JSON as text.
func (u *unknownLines) handleNonEvent(line []byte) []Piece {
	u.addUnknown(line)
	if line[0] == '{' && json.Valid(line) {
		return nil // an event in an unknown format
	}
	text := CleanText(line)
	u.lastNonEvent = displayedText(text)
	return []Piece{{Text: text + "\n"}}
}

// addUnknown records the line as the first unknown line, unless a known event or another unknown line preceded it.
func (u *unknownLines) addUnknown(line []byte) {
	if !u.hasKnownEvent && u.firstUnknown == "" {
		u.firstUnknown = CleanText(line[:min(len(line), maxReason)])
	}
}

// unknownOutputReason returns the reason why a run with unknown or incomplete output failed. why is the reason so far, and
// first is the first unknown line of the output. version is the version of the program that ran. testedVersion is the version
// that Fleet was tested with. Each of these four may be empty.
func unknownOutputReason(why, first, program, version, testedVersion string) string {
	if why == "" {
		why = "this version of " + strings.TrimSpace(program+" "+version) + " writes no output that Fleet understands"
		if first = oneLine(first); first != "" {
			why += "; its first line is " + shorten(first, maxUnknownShown)
		}
	}
	if testedVersion == "" {
		return why
	}
	return why + "; Fleet was tested with " + program + " " + testedVersion
}

// maxUnknownShown limits how much unknown output is shown, in characters.
const maxUnknownShown = 80
