package agentapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fleet/internal/fleet"
)

const (
	// stableTime is how long lines must be unchanged on the agent's screen before they are passed on. A screen is redrawn
	// often.
	stableTime = 800 * time.Millisecond
	// stepInterval is the minimum interval between progress messages.
	stepInterval = 5 * time.Second
)

// screenReader converts the agent's screen, which is redrawn often, to a text that only grows.
type screenReader struct {
	position    position
	passedLines []string // lines of the message position.message that were passed on
	resumed     bool     // reading continues at a cursor, so passedLines is unknown; position has their number and the hash of the last one

	base   []string // the lines of the screen at the time baseAt
	baseAt time.Time
	stepAt time.Time // when the last progress message was passed on
}

// position is the place in a run's conversation up to which the text was passed on. Its text is the cursor of an output.
type position struct {
	runMessage   int    // id of the run's message, which has its prompt
	message      int    // id of the agent's message
	lines        int    // number of lines of that message that were passed on
	lastLineHash string // of the last one of these lines
	stepHash     string // of the last progress message
	seq          int    // number of outputs so far
}

func (p position) String() string {
	return fmt.Sprintf("%d.%d.%d.%s.%s.%d", p.runMessage, p.message, p.lines, p.lastLineHash, p.stepHash, p.seq)
}

func parsePosition(cursor string) (position, error) {
	var p position
	if cursor == "" {
		return p, nil
	}
	errCursor := fleet.InvalidField("cursor", "%q is not a cursor of this run: use a cursor from the run's output", oneLine(cursor))
	parts := strings.Split(cursor, ".")
	if len(parts) != 6 {
		return p, errCursor
	}
	for i, field := range map[int]*int{0: &p.runMessage, 1: &p.message, 2: &p.lines, 5: &p.seq} {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return p, errCursor
		}
		*field = n
	}
	p.lastLineHash, p.stepHash = parts[3], parts[4]
	return p, nil
}

func newScreenReader(from position) *screenReader {
	return &screenReader{position: from, resumed: from.seq > 0}
}

// newText returns the outputs with the agent's new text since the last call. runMessage is the run's message, and messages are the
// messages of the run after it. final means that the last message is complete.
func (s *screenReader) newText(runMessage message, messages []message, final bool, now time.Time) []fleet.Output {
	s.position.runMessage = max(runMessage.ID, 0)
	var out []fleet.Output
	for i, m := range messages {
		if m.Role == roleUser || m.ID < s.position.message {
			continue
		}
		if m.ID > s.position.message {
			s.position.message, s.position.lines, s.position.lastLineHash = m.ID, 0, ""
			s.passedLines, s.resumed, s.base, s.baseAt = nil, false, nil, time.Time{}
		}
		lines := screenLines(m.Content)
		if final || i < len(messages)-1 {
			out = append(out, s.passOn(finalLines(lines))...)
			continue
		}
		if step, ok := s.newStep(lines, now); ok {
			out = append(out, step)
		}
		if n, ok := s.settledCount(lines, now); ok {
			out = append(out, s.passOn(lines[:n])...)
		}
	}
	return out
}

// newStep returns the progress message among the lines as a step of the agent. It returns false if there is none, if it was returned
// before, or if the last step was returned less than stepInterval ago.
func (s *screenReader) newStep(lines []string, now time.Time) (fleet.Output, bool) {
	i := progressLine(lines)
	if i < 0 {
		return fleet.Output{}, false
	}
	text, key := progressText(lines[i])
	if key == "" || hashOf(key) == s.position.stepHash || !s.stepAt.IsZero() && now.Sub(s.stepAt) < stepInterval {
		return fleet.Output{}, false
	}
	s.position.stepHash, s.stepAt = hashOf(key), now
	return s.newOutput(true, text), true
}

// settledCount returns the number of lines that will probably not change, because they did not for stableTime. It returns false
// if that number is not known yet.
func (s *screenReader) settledCount(lines []string, now time.Time) (int, bool) {
	if s.baseAt.IsZero() {
		s.base, s.baseAt = lines, now
		return 0, false
	}
	if now.Sub(s.baseAt) < stableTime {
		return 0, false
	}
	n := len(lines) - 1 // the last line may still grow
	if i := progressLine(lines); i >= 0 {
		n = i
	}
	n = min(max(n, 0), commonPrefixLen(s.base, lines))
	s.base, s.baseAt = lines, now
	return n, true
}

// passOn returns the outputs with the lines that were not passed on before, and counts them as passed on.
func (s *screenReader) passOn(lines []string) []fleet.Output {
	lines = slices.Clone(lines)
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1] // empty lines are passed on with the text that follows them
	}
	if s.resumed {
		if len(lines) < s.position.lines && !slices.ContainsFunc(lines, func(line string) bool { return hashOf(line) == s.position.lastLineHash }) {
			return nil // the screen is not redrawn completely yet
		}
		s.passedLines, s.resumed = s.findPassedLines(lines), false
	}
	from := firstNewLine(s.passedLines, lines)
	if from >= len(lines) {
		return nil
	}
	s.passedLines = lines
	var out []fleet.Output
	for from < len(lines) {
		isStep := stepPattern.MatchString(lines[from])
		to := from + 1
		for to < len(lines) && (stepPattern.MatchString(lines[to]) == isStep || lines[to] == "" || isStep && strings.HasPrefix(lines[to], "   ")) {
			to++
		}
		text := strings.Join(lines[from:to], "\n")
		s.position.lines, s.position.lastLineHash = to, hashOf(lines[to-1])
		if strings.TrimSpace(text) != "" {
			out = append(out, s.newOutput(isStep, text+"\n"))
		}
		from = to
	}
	return out
}

func (s *screenReader) newOutput(isStep bool, text string) fleet.Output {
	s.position.seq++
	return fleet.Output{Cursor: s.position.String(), IsStep: isStep, Text: text, Terminal: true}
}

// findPassedLines returns the lines that were passed on before, as far as they can be found in the current lines.
func (s *screenReader) findPassedLines(lines []string) []string {
	best := -1
	for i, line := range lines {
		if hashOf(line) == s.position.lastLineHash && (best < 0 || distance(i, s.position.lines-1) < distance(best, s.position.lines-1)) {
			best = i
		}
	}
	if best < 0 {
		best = min(s.position.lines, len(lines)) - 1
	}
	return slices.Clone(lines[:best+1])
}

// firstNewLine returns the index of the first new line in lines. passed are the lines that were passed on before. They are at
// the beginning of lines, unless the screen has scrolled or was redrawn.
func firstNewLine(passed, lines []string) int {
	sameCount := commonPrefixLen(passed, lines)
	if sameCount == len(passed) || sameCount == len(lines) {
		return sameCount
	}
	const maxLookBack = 40 // how many of the last passed lines are looked for
	for back := range min(maxLookBack, len(passed)-sameCount) {
		last := len(passed) - 1 - back
		if passed[last] == "" {
			continue
		}
		best := -1
		for i := sameCount; i < len(lines); i++ {
			if lines[i] == passed[last] && (best < 0 || distance(i, last) < distance(best, last)) {
				best = i
			}
		}
		if best >= 0 {
			return best + 1
		}
	}
	return sameCount
}

// hashOf returns the first 12 hex digits of the text's SHA-256.
func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// commonPrefixLen returns the number of lines at the beginning that are equal.
func commonPrefixLen(a, b []string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func distance(a, b int) int { return max(a-b, b-a) }
