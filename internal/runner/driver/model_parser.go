package driver

import (
	"encoding/json"
	"strings"

	"fleet/internal/fleet"
)

// OutputLine is a line of output in Fleet's own format. Runs of models, for example, write this format.
type OutputLine struct {
	Step       bool            `json:"step,omitempty"`
	Text       string          `json:"text,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	OpenCalls  int             `json:"open,omitempty"`    // number of open tool calls after this line
	UsageSoFar *fleet.Outcome  `json:"spent,omitempty"`   // usage, cost and turns of the run
	Outcome    *fleet.Outcome  `json:"outcome,omitempty"` // in the last line; its payload is in the run's payload file
}

// modelParser parses lines of the type OutputLine.
type modelParser struct {
	openCalls int
	usage     fleet.Outcome  // the newest UsageSoFar
	outcome   *fleet.Outcome // nil until it is reported
}

// OpenCalls implements CallCounter.
func (p *modelParser) OpenCalls() int { return p.openCalls }

// ParseLine implements lineParser.
func (p *modelParser) ParseLine(line []byte) []Piece {
	var s OutputLine
	if json.Unmarshal(line, &s) != nil {
		return []Piece{{Text: CleanText(line) + "\n"}}
	}
	switch {
	case s.UsageSoFar != nil:
		p.usage = *s.UsageSoFar
		return nil
	case s.Outcome != nil:
		p.outcome = s.Outcome
		return nil
	}
	p.openCalls = max(0, s.OpenCalls)
	piece := Piece{Step: s.Step, Text: cleanString(s.Text)}
	if len(s.Data) > 0 {
		piece.Data = fleet.ParseStep([]byte(strings.ReplaceAll(string(s.Data), `\u0000`, `\ufffd`)))
	}
	return []Piece{piece}
}

// Result implements lineParser. If the run ended before it wrote its outcome, Result takes the usage from the last UsageSoFar or from
// Exit.Usage, whichever is newer.
func (p *modelParser) Result(e Exit) Result {
	o := exitOutcome(e, "")
	if p.outcome == nil && e.Code == 0 {
		setFailed(&o, "the run ended without a result")
	}
	usage := &p.usage
	var last fleet.Outcome
	if json.Unmarshal(e.Usage, &last) == nil && last.CostUSD >= usage.CostUSD && last.Turns >= usage.Turns {
		usage = &last // the end of the output may not have been read
	}
	if reported := p.outcome; reported != nil {
		usage = reported
		switch {
		case e.Code != 0 && reported.Status == fleet.TaskCompleted: // the run crashed after it wrote the outcome
		case reported.Status == fleet.TaskCompleted, reported.Status == fleet.TaskStopped:
			o.Status, o.Reason = reported.Status, reasonText(reported.Reason)
		default:
			setFailed(&o, reasonText(reported.Reason))
		}
		o.Output, o.ReasonCode = reported.Output, fleet.ReasonCode(oneLine(string(reported.ReasonCode)))
		o.Summary, o.Reported = shorten(cleanString(reported.Summary), maxSummary), reported.Reported
	}
	o.ExitCode = nil // the exit code says nothing about the agent's work
	o.Usage, o.CostUSD, o.Turns = usage.Usage, usage.CostUSD, usage.Turns
	o.Usage.Model = oneLine(o.Usage.Model)
	return Result{Outcome: o}
}
