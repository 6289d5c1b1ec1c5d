package driver

import (
	"bytes"
	"fmt"

	"fleet/internal/fleet"
)

// Format says how the output of a run is read. It is kept with the run, so that it can be read whatever becomes of the
// project.
type Format struct {
	Kind   string `json:"kind"` // text, claude, codex, acp, outputs or jsonl
	Fields Fields `json:"fields,omitzero"`
	// Resumed is the conversation that the run goes on with; empty when it begins one.
	Resumed string `json:"resumed,omitempty"`
	// Told stands for what the run tells its program about the agent.
	Told string `json:"told,omitempty"`
	// Results says that what tools answered is passed on too.
	Results bool `json:"results,omitempty"`
	// Program is what the program is called in errors, and Tested is the version of it that Fleet was tested with.
	Program string `json:"program,omitempty"`
	Tested  string `json:"tested,omitempty"`
	// Model is the model that the run is meant for, where the output does not tell; empty: the program's own choice.
	Model string `json:"model,omitempty"`
	// Lost says why the run does not go on with the agent's conversation; empty when it does, or begins the first one.
	Lost string `json:"lost,omitempty"`
	// Record is where the program keeps the conversation of the run, as a pattern of package path/filepath with RecordID in
	// the place of its id; empty when that is not known.
	Record string `json:"record,omitempty"`
}

// Parser reads the output of one run, from its beginning. What it finds depends on the bytes alone, not on the pieces
// they come in.
type Parser interface {
	// Parse reads the beginning of data, and returns how much of it, and what was said in that. The next call begins
	// with what was left over. With final set, data is the last there is, and all of it is read.
	Parse(data []byte, final bool) (n int, said []Piece)

	// Result is what the run came to, once everything was parsed.
	Result(e Exit) Result
}

// Flusher is a Parser that can be made to give what it holds back because more may come that belongs to it.
type Flusher interface {
	// Flush reads all of data that can be read without knowing what comes next, like Parse.
	Flush(data []byte) (n int, said []Piece)
}

// Skipper is a Parser that can go on after a gap.
type Skipper interface {
	// Skip reads data, which Parse left over and after which bytes of the output are missing, and returns what was said
	// in it.
	Skip(data []byte) []Piece
}

// Opener is a Parser that knows which calls of tools are under way.
type Opener interface {
	// Open is how many calls have begun and not ended in what was parsed. A question that waits for its answer is one.
	Open() int
}

// Piece is something the run said. One without a text says that the run makes progress.
type Piece struct {
	Step bool // what it did, not what it wrote
	Text string
	Data []byte // the step for programs, see fleet.Output
	Lost string // why the conversation begins anew, see fleet.Output.ConversationLost
}

// Exit is how the program ended, by itself.
type Exit struct {
	Code   int    // -1 when a signal ended it
	Signal string // that ended it
	Stderr string // the end of what it wrote there, when that was kept apart
}

// Result is what a run came to.
type Result struct {
	Outcome fleet.Outcome // completed or failed; whether it was stopped is not for the parser to know
	Session string        // the conversation that the agent's next run goes on with
	Forget  bool          // the conversation that it was to go on with does not exist
}

// NewParser returns a parser of the format.
func NewParser(f Format) (Parser, error) {
	switch f.Kind {
	case "text":
		return &textParser{}, nil
	case "claude":
		return &lines{each: newClaudeParser(f), lost: f.Lost}, nil
	case "codex":
		return &lines{each: newCodexParser(f), lost: f.Lost}, nil
	case "acp":
		return &lines{each: newACPParser(f), lost: f.Lost}, nil
	case "outputs":
		return &lines{each: &outputsParser{}}, nil
	case "jsonl":
		p, err := newJSONParser(f.Fields)
		if err != nil {
			return nil, err
		}
		return &lines{each: p}, nil
	}
	return nil, fmt.Errorf("output of an unknown kind %q: the run was started by another version of Fleet", f.Kind)
}

// MaxLine is the longest line of JSON that is read, in bytes; what is longer is passed over.
const MaxLine = 8 << 20

// lineParser reads an output that is made of lines.
type lineParser interface {
	Line(line []byte) []Piece
	Result(e Exit) Result
}

// lines cuts an output into lines.
type lines struct {
	each lineParser
	lost string // to be told with the first line
	skip bool   // in the midst of a line that is too long
}

func (l *lines) Parse(data []byte, final bool) (int, []Piece) {
	i := bytes.IndexByte(data, '\n')
	switch {
	case i < 0 && len(data) > MaxLine:
		l.skip = true
		return len(data), nil
	case i < 0 && !final:
		return 0, nil
	case i < 0:
		i = len(data)
	}
	n := min(i+1, len(data))
	if l.skip || i > MaxLine {
		l.skip = false
		return n, nil
	}
	line := bytes.TrimSpace(data[:i])
	if len(line) == 0 {
		return n, nil
	}
	said := l.each.Line(line)
	if l.lost != "" {
		said = append([]Piece{lostPiece(l.lost)}, said...)
		l.lost = ""
	}
	return n, said
}

func lostPiece(why string) Piece {
	why = shorten(valid(why), maxReason)
	return Piece{Step: true, Text: oneLine(BeginsAnew(why)), Lost: why}
}

// Skip implements Skipper: neither the line before the gap nor the one after it is whole.
func (l *lines) Skip([]byte) []Piece {
	l.skip = true
	return nil
}

// Open implements Opener.
func (l *lines) Open() int {
	if o, ok := l.each.(Opener); ok {
		return o.Open()
	}
	return 0
}

func (l *lines) Result(e Exit) Result { return l.each.Result(e) }

// ending says in words how a program ended that did not end well; detail is the last thing it said.
func ending(e Exit, detail string) string {
	words := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		words = "ended by signal " + e.Signal
	}
	if detail != "" {
		words += ": " + detail
	}
	return words
}

// outcome is completed for a program that ended well and failed for another.
func outcome(e Exit, detail string) fleet.Outcome {
	o := fleet.Outcome{Status: fleet.TaskCompleted}
	if e.Code >= 0 {
		o.ExitCode = &e.Code
	}
	if e.Code != 0 {
		o.Status, o.Reason = fleet.TaskFailed, ending(e, detail)
	}
	return o
}
