package driver

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// claudeParser parses the events of --output-format stream-json, one per line. It skips unknown events.
//
// A run has several results if background work continues after the first result. The last result decides how the run ended. The turns
// and the usage of all results are added.
type claudeParser struct {
	unknownLines

	format          Format
	modelAnswered   bool   // the model has answered, so it has received this run's instructions
	session         string // id of the program's session
	lastText        string // the model's last text
	version         string // version of the program
	result          *claudeEvent
	output          json.RawMessage // output of the newest result that has one; background work can lead to further results
	cost            float64         // in US dollars
	turns           int
	openCalls       map[string]bool          // tool calls without a result so far
	durations       map[string]time.Duration // how long tool calls took, until their results arrive
	foreground      map[string]bool          // ids of commands that run in the foreground
	reportedDenials map[string]bool          // tool calls whose denial was reported
	hasBegun        bool                     // the first turn has begun
	endReason       string                   // why Fleet's client ended a run that could not succeed
	usage           claudeUsage

	limit       *claudeLimit                // the newest state of the limits of the subscription
	windows     map[string]fleet.UsageLimit // the last state that a step has reported of each window, by name
	apiError    string                      // the newest error of the model's API, as Claude Code names it; empty after an answer
	unreachable bool                        // the newest request to the model got no answer
}

func newClaudeParser(f Format) *claudeParser {
	return &claudeParser{
		format: f, openCalls: map[string]bool{}, durations: map[string]time.Duration{}, foreground: map[string]bool{}, reportedDenials: map[string]bool{},
		windows: map[string]fleet.UsageLimit{}, usage: claudeUsage{toolNames: map[string]string{}, messages: map[string]tokens{}, measured: map[string]bool{}},
	}
}

// OpenCalls implements CallCounter.
func (p *claudeParser) OpenCalls() int { return len(p.openCalls) }

func (p *claudeParser) ParseLine(line []byte) []Piece {
	var e claudeEvent
	if err := json.Unmarshal(line, &e); err != nil && !isTypeError(err) || e.Type == "" {
		return p.handleNonEvent(line)
	}
	p.session = cmp.Or(e.SessionID, p.session)
	switch e.Type {
	case "system":
		p.hasKnownEvent = true
		p.version = cmp.Or(e.Version, p.version)
		p.usage.model = cmp.Or(p.usage.model, e.Model)
		first := e.Subtype == "init" && !p.hasBegun // every turn begins with the same event
		p.hasBegun = p.hasBegun || first
		if first {
			return serverWarnings(e.Servers)
		}
		return p.handleNotice(line)
	case "rate_limit_event":
		p.hasKnownEvent = true
		return p.handleNotice(line)
	case "fleet": // an event of Fleet's client in package claude
		p.hasKnownEvent = true
		switch e.Subtype {
		case "gave_up":
			p.endReason = "the model's API refuses the key: check the key of the project"
		case "usage":
			return p.usage.setMeasured(&e)
		case "tool_time":
			p.durations[e.ToolUseID] = time.Duration(e.Milliseconds) * time.Millisecond
			return nil
		}
		return p.handleNotice(line)
	case "result":
		p.hasKnownEvent = true
		return p.handleResult(&e)
	case "assistant":
		p.hasKnownEvent, p.modelAnswered = true, true
		p.apiError, p.unreachable = e.APIError, false
		return append(p.handleAssistant(e), p.usage.addMessage(&e)...)
	case "user":
		return p.handleUser(e)
	default:
		p.addUnknown(line)
	}
	return nil
}

// handleResult handles a result. It reports the denials that no other event has reported, such as those of people.
func (p *claudeParser) handleResult(e *claudeEvent) (pieces []Piece) {
	p.result = e
	if len(e.Output) > 0 && string(e.Output) != "null" {
		p.output = e.Output
	}
	clear(p.openCalls)
	p.turns += e.Turns
	p.usage.addResult(e)
	if e.UsageByModel == nil {
		p.cost = e.Cost
	}
	for _, m := range e.UsageByModel {
		p.cost += m.Cost
	}
	for _, d := range e.Denials {
		pieces = append(pieces, p.denialSteps(d.ID, d.Name, "it was not allowed")...)
	}
	return pieces
}

// denialSteps returns a step for a tool call that was denied, or none if the denial was reported before.
func (p *claudeParser) denialSteps(id, name, why string) []Piece {
	if p.reportedDenials[id] {
		return nil
	}
	p.reportedDenials[id] = id != ""
	return []Piece{deniedStep(id, toolName(name), why)}
}

// handleAssistant handles a message of the model, or a part of it.
func (p *claudeParser) handleAssistant(e claudeEvent) []Piece {
	var blocks []claudeBlock
	if err := json.Unmarshal(e.Message.Content, &blocks); err != nil {
		return nil
	}
	var pieces []Piece
	for _, b := range blocks {
		switch {
		case b.Type == "tool_use" && b.Name != "":
			p.usage.toolCount++
			p.usage.toolNames[b.ID] = b.Name
			p.openCalls[b.ID] = true
			pieces = append(pieces, e.withSubagent(toolCallStep(toolCallText(b.Name, b.Input), b.ID, toolName(b.Name), b.Input)))
			if items := todoItems(b.Input); b.Name == "TodoWrite" && len(items) > 0 {
				pieces = append(pieces, e.withSubagent(todoListStep(items)))
			}
		case b.Type == "thinking" && strings.TrimSpace(b.Thinking) != "":
			pieces = append(pieces, e.withSubagent(thoughtStep(b.Thinking)))
		case b.Type == "text" && strings.TrimSpace(b.Text) == "":
		case b.Type == "text" && e.Parent == nil:
			p.lastText = b.Text
			pieces = append(pieces, Piece{Text: cleanString(strings.TrimRight(b.Text, "\n")) + "\n"})
		case b.Type == "text":
			pieces = append(pieces, e.withSubagent(subagentTextStep(e.Subagent, b.Text)))
		}
	}
	return pieces
}

// toolCallText describes a tool call in one line: its name and its most informative argument.
func toolCallText(name string, arguments json.RawMessage) string {
	var input map[string]any
	_ = json.Unmarshal(arguments, &input) // without arguments there is nothing to add
	name = toolName(name)
	for _, key := range []string{
		"command", "file_path", "notebook_path", "pattern", "url", "query", "description", "path", "prompt", "skill",
	} {
		if s, ok := input[key].(string); ok && strings.TrimSpace(s) != "" {
			return oneLine(name + ": " + s)
		}
	}
	return oneLine(name)
}

// toolName returns the name of the tool for people. It shortens mcp__SERVER__TOOL to SERVER.TOOL.
func toolName(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, "mcp__"), "__", ".")
}

func (p *claudeParser) Result(e Exit) Result {
	o := exitOutcome(e, cmp.Or(lastLine(e.Stderr), p.lastNonEvent))
	resumedID, r := parseConversation(p.format.Session).id, Result{}
	if p.session != "" {
		r.Session = p.format.nextConversation(p.session, p.modelAnswered, "")
	}
	switch res := p.result; {
	case res == nil:
		addFinalText(&o, p.lastText)
		switch {
		case e.Code == 0 && !p.hasKnownEvent:
			setFailed(&o, unknownOutputReason("", p.firstUnknown, "claude", p.version, p.format.TestedVersion))
			o.ReasonCode = fleet.CodeProgramChanged
		case e.Code == 0:
			setFailed(&o, unknownOutputReason("claude ended without a result", "", "claude", p.version, p.format.TestedVersion))
		case !p.hasKnownEvent && e.Signal == "" && resumedID == "":
			o.Reason = unknownOutputReason(o.Reason, p.firstUnknown, "claude", p.version, p.format.TestedVersion)
			o.ReasonCode = fleet.CodeProgramChanged
		}
	case p.endReason != "":
		setFailed(&o, p.endReason)
		o.ReasonCode = fleet.CodeAuth
	case res.failed():
		setFailed(&o, claudeFailureReason(res))
		o.ReasonCode = p.failureCode(res)
		addFinalText(&o, p.lastText)
	default:
		addFinalText(&o, res.Result)
		o.Output = p.output
	}
	o.CostUSD, o.CostPartial, o.Turns, o.Usage = p.cost, len(p.usage.messages) > 0, p.turns, p.usage.total()
	if resumedID != "" && strings.Contains(o.Reason+e.Stderr+p.lastNonEvent, "No conversation found") {
		r.Session, r.LostConversation = "", true
		o.Reason += "; the agent's next task begins a new conversation"
	}
	p.addLimitReason(&o)
	r.Outcome = o
	return r
}
