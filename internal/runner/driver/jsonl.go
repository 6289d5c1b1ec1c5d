package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"fleet/internal/fleet"
)

// Fields are the paths of values in JSON lines; see path for the syntax. An empty path is ignored.
type Fields struct {
	Text    string `json:"text,omitempty" yaml:"text"`       // the agent's text
	Delta   bool   `json:"delta,omitempty" yaml:"delta"`     // the texts are pieces of one text, and not paragraphs
	Step    string `json:"step,omitempty" yaml:"step"`       // a tool call or a command
	Detail  string `json:"detail,omitempty" yaml:"detail"`   // details of the step
	Summary string `json:"summary,omitempty" yaml:"summary"` // the result; without it, the last text is the result
	Error   string `json:"error,omitempty" yaml:"error"`     // the reason of a failure
	Cost    string `json:"cost,omitempty" yaml:"cost"`       // in US dollars; several values are added
}

// jsonParser parses JSON lines by their fields.
type jsonParser struct {
	text, step, detail, summary, failure, cost path

	delta       bool
	summaryText string
	lastText    []byte // the last text; with delta, its pieces are joined
	startsText  bool   // the next piece starts a new text
	failureText string
	costUSD     float64
	lastNonJSON string // the last line that is not JSON
}

func newJSONParser(f Fields) (*jsonParser, error) {
	p := &jsonParser{delta: f.Delta}
	for _, x := range []struct {
		name, text string
		to         *path
	}{
		{"text", f.Text, &p.text},
		{"step", f.Step, &p.step},
		{"detail", f.Detail, &p.detail},
		{"summary", f.Summary, &p.summary},
		{"error", f.Error, &p.failure},
		{"cost", f.Cost, &p.cost},
	} {
		parsed, err := parsePath(x.text)
		if err != nil {
			return nil, fmt.Errorf("fields.%s: %w", x.name, err)
		}
		*x.to = parsed
	}
	if p.text == nil && p.summary == nil {
		return nil, fmt.Errorf("output: jsonl needs fields.text or fields.summary")
	}
	return p, nil
}

func (p *jsonParser) ParseLine(line []byte) []Piece {
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		text := CleanText(line)
		p.lastNonJSON = displayedText(text)
		return []Piece{{Text: text + "\n"}}
	}
	var pieces []Piece
	if s := p.text.text(v); s != "" {
		switch {
		case !p.delta:
			p.lastText = []byte(s)
			s += "\n"
		case p.startsText:
			p.lastText = appendPiece(nil, s)
		default:
			p.lastText = appendPiece(p.lastText, s)
		}
		p.startsText = false
		pieces = append(pieces, Piece{Text: cleanString(s)})
	}
	if s := p.step.text(v); s != "" {
		if d := p.detail.text(v); d != "" {
			s += ": " + d
		}
		p.startsText = true
		pieces = append(pieces, Piece{Step: true, Text: oneLine(s)})
	}
	if s := p.summary.text(v); s != "" {
		p.summaryText = s
	}
	if s := p.failure.text(v); s != "" {
		p.failureText = s
	}
	if f, err := strconv.ParseFloat(p.cost.text(v), 64); err == nil && f > 0 {
		p.costUSD += f
	}
	return pieces
}

func (p *jsonParser) Result(e Exit) Result {
	o := exitOutcome(e, cmp.Or(p.failureText, lastLine(e.Stderr), p.lastNonJSON))
	o.CostUSD = p.costUSD
	finalText := cmp.Or(p.summaryText, string(p.lastText))
	if e.Code == 0 && p.failureText != "" && finalText == "" {
		o.Status, o.Reason = fleet.TaskFailed, reasonText(p.failureText)
	}
	addFinalText(&o, finalText)
	return Result{Outcome: o}
}
