package driver

import (
	"bytes"
	"fmt"

	"fleet/internal/fleet"
)

// Format describes how to parse the output of a run. It is stored with the run, so that Fleet can parse the output even
// after the project's configuration has changed.
type Format struct {
	Kind   string `json:"kind"` // text, claude, codex, acp, model, jsonl or terminal
	Fields Fields `json:"fields,omitzero"`
	// Session is the conversation that the run continues. It is empty if the run starts a new conversation.
	Session string `json:"resumed,omitempty"`
	// InstructionsHash is a fingerprint of the instructions that the run gives its program.
	InstructionsHash string `json:"told,omitempty"`
	// Program is the name of the program in error messages. TestedVersion is the version of the program that Fleet was tested with.
	Program       string `json:"program,omitempty"`
	TestedVersion string `json:"tested,omitempty"`
	// Model is the configured model of the run, for outputs that do not contain the model. It is empty if the program
	// chooses its model.
	Model string `json:"model,omitempty"`
	// FindsOutput means that the parser must look for fleet.Outcome.Output in the run's last message.
	FindsOutput bool `json:"output,omitempty"`
	// LostReason is why the run cannot continue the agent's conversation. It is empty if the run continues that conversation,
	// or if the agent had none.
	LostReason string `json:"lost,omitempty"`
	// ConversationPattern is a path/filepath pattern for the file in which the program stores the conversation of the run, with
	// ConversationIDPlaceholder in place of the conversation's id. It is empty if the path is unknown.
	ConversationPattern string `json:"record,omitempty"`
	// Conversation is fleet.Run.Conversation.
	Conversation string `json:"conversation,omitempty"`
	// NotStored means that the program does not store the conversation, so no run can continue it.
	NotStored bool `json:"unstored,omitempty"`
	// NewSessionID is the id of the conversation that a person at a terminal may begin.
	NewSessionID string `json:"begun,omitempty"`
}

// Parser parses the output of one run from its beginning. The result must not depend on how the output is split.
type Parser interface {
	// Parse parses the beginning of data. It returns the length of the parsed part, and the pieces in that part. The
	// next call gets the rest of data. If final is set, no more output will come, and repeated calls must parse all
	// data.
	Parse(data []byte, final bool) (n int, pieces []Piece)

	// Result returns the result of the run, after everything was parsed.
	Result(e Exit) Result
}

// Flusher is a Parser that holds data back while more data may follow.
type Flusher interface {
	// Flush parses the data that Parse holds back, as far as that is possible without the data that follows. Like Parse, it
	// returns the length of the parsed part and its pieces.
	Flush(data []byte) (n int, pieces []Piece)
}

// Skipper is a Parser that can continue after a gap.
type Skipper interface {
	// Skip parses the data that Parse has left before a gap in the output.
	Skip(data []byte) []Piece
}

// CallCounter is a Parser that tracks open tool calls.
type CallCounter interface {
	// OpenCalls returns the number of calls that have started and have not ended. The number includes questions that wait
	// for an answer.
	OpenCalls() int
}

// Piece is a parsed piece of output. A piece without a text is a sign of progress.
type Piece struct {
	Step       bool // an action, not a text
	Text       string
	Data       *fleet.Step // the step, for programs; nil if Text says everything
	LostReason string      // why a new conversation starts, see fleet.Output.ConversationLost
}

// Exit describes how the program ended.
type Exit struct {
	Code   int    // the exit code; -1 if a signal ended the program
	Signal string // the signal that ended the program
	Stderr string // the end of the program's stderr, if stderr was kept separately
	Usage  []byte // the content of UsageFile
}

// Result is the result of a run.
type Result struct {
	Outcome          fleet.Outcome // completed or failed; the parser cannot know whether the run was stopped
	Session          string        // the conversation that the agent's next run continues
	LostConversation bool          // the program no longer has the conversation that the run should continue
}

// NewParser returns a parser for the format.
func NewParser(f Format) (Parser, error) {
	switch f.Kind {
	case "text":
		return &textParser{}, nil
	case "claude":
		return &lineSplitter{parser: newClaudeParser(f), lostReason: f.LostReason}, nil
	case "codex":
		return &lineSplitter{parser: newCodexParser(f), lostReason: f.LostReason, findsOutput: f.FindsOutput}, nil
	case "acp":
		return &lineSplitter{parser: newACPParser(f), lostReason: f.LostReason, findsOutput: f.FindsOutput}, nil
	case "model":
		return &lineSplitter{parser: &modelParser{}}, nil
	case KindTerminal:
		return terminalParser{f}, nil
	case "jsonl":
		p, err := newJSONParser(f.Fields)
		if err != nil {
			return nil, err
		}
		return &lineSplitter{parser: p}, nil
	}
	return nil, fmt.Errorf("output of an unknown kind %q: the run was started by another version of Fleet", f.Kind)
}

// MaxLine is the longest line of JSON that is parsed, in bytes. Longer lines are skipped.
const MaxLine = 8 << 20

// lineParser parses an output that consists of lines.
type lineParser interface {
	// ParseLine parses a line, which is not empty and has no line break.
	ParseLine(line []byte) []Piece

	// Result returns the result of the run, after all lines were parsed.
	Result(e Exit) Result
}

// lineSplitter is a Parser that splits the output into lines for a lineParser.
type lineSplitter struct {
	parser      lineParser
	lostReason  string // why a new conversation starts; reported before the first line
	findsOutput bool   // see Format.FindsOutput
	skipping    bool   // the next data is the rest of an incomplete or too long line, which is dropped
}

func (l *lineSplitter) Parse(data []byte, final bool) (int, []Piece) {
	i := bytes.IndexByte(data, '\n')
	switch {
	case i < 0 && len(data) > MaxLine:
		l.skipping = true
		return len(data), nil
	case i < 0 && !final:
		return 0, nil
	case i < 0:
		i = len(data)
	}
	n := min(i+1, len(data))
	if l.skipping || i > MaxLine {
		l.skipping = false
		return n, nil
	}
	line := bytes.TrimSpace(data[:i])
	if len(line) == 0 {
		return n, nil
	}
	pieces := l.parser.ParseLine(line)
	if l.lostReason != "" {
		pieces = append([]Piece{lostConversationStep(l.lostReason)}, pieces...)
		l.lostReason = ""
	}
	return n, pieces
}

// lostConversationStep returns a step that says why a new conversation starts.
func lostConversationStep(why string) Piece {
	why = reasonText(why)
	return Piece{Step: true, Text: oneLine("a new conversation starts: " + why), LostReason: why}
}

// Skip implements Skipper. It drops the incomplete lines on both sides of the gap.
func (l *lineSplitter) Skip([]byte) []Piece {
	l.skipping = true
	return nil
}

// OpenCalls implements CallCounter.
func (l *lineSplitter) OpenCalls() int {
	if o, ok := l.parser.(CallCounter); ok {
		return o.OpenCalls()
	}
	return 0
}

func (l *lineSplitter) Result(e Exit) Result {
	r := l.parser.Result(e)
	if l.findsOutput && r.Outcome.Status == fleet.TaskCompleted {
		r.Outcome.Output = FindObject(string(r.Outcome.Payload))
	}
	return r
}
