package driver

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
)

// acpParser parses the output of the client in package acp.
type acpParser struct {
	format            Format
	costBefore        float64 // cost of the session before this run, in US dollars
	calls             *acp.Calls
	permissionPending bool // a request for a permission waits for its answer
	claude            *claudeParser

	session       string
	modelAnswered bool             // the model has answered, so it has received this run's instructions
	pendingLine   acp.Line         // the newest line of a thought or of a subagent's text that was not reported so far
	pendingText   []byte           // the text of that thought or subagent so far
	callStarts    map[string]int64 // when tool calls began, in Unix milliseconds; 0 if unknown
	lastText      []byte           // text of the agent's current or last message
	messageID     string           // id of that message
	startsMessage bool             // the next text starts a new message
	lineOpen      bool             // the output does not end with a newline
	failure       string
	failureCode   fleet.ReasonCode // of failure
	apiCode       fleet.ReasonCode // code of the newest error of the model's API after which Codex continued
	turnFailed    bool             // Codex reported that an error ended the turn; the error is the agent's last text
	turns         int
	model         string // model of the session, or the model that answered last
	usage         tokens
	contextTokens int64 // tokens in the conversation
	contextWindow int64 // tokens that fit into the conversation
	toolCount     int
	sessionCost   float64 // cost of the session so far, in US dollars
	unknownOutput string  // the last line that is not from the client in package acp
}

func newACPParser(f Format) *acpParser {
	p := &acpParser{format: f, calls: acp.NewCalls(), claude: newClaudeParser(Format{}), callStarts: map[string]int64{}, model: f.Model}
	p.costBefore, _ = strconv.ParseFloat(parseConversation(f.Session).usage, 64)
	p.sessionCost = p.costBefore
	return p
}

// OpenCalls implements CallCounter.
func (p *acpParser) OpenCalls() int {
	n := p.calls.OpenCount()
	if p.permissionPending {
		n++
	}
	return n
}

func (p *acpParser) ParseLine(line []byte) []Piece {
	var l acp.Line
	if err := json.Unmarshal(line, &l); err != nil || l.Type == "" {
		text := CleanText(line)
		p.unknownOutput = displayedText(text)
		return []Piece{{Text: text + "\n"}}
	}
	if l.Type != acp.LineThought && (l.Type != acp.LineText || l.Parent == "") {
		return append(p.flushPending(), p.handleLine(l)...)
	}
	pieces := []Piece{{}} // a sign of progress
	if l.Type != p.pendingLine.Type || l.Parent != p.pendingLine.Parent || l.Parent != "" && l.ID != p.pendingLine.ID {
		pieces = append(pieces, p.flushPending()...)
	}
	p.pendingLine, p.pendingText = l, appendPiece(p.pendingText, l.Text)
	return pieces
}

// flushPending reports the thought or the subagent's text that the lines before the current line contain, if any.
func (p *acpParser) flushPending() []Piece {
	text := strings.TrimSpace(string(p.pendingText))
	if p.pendingText = p.pendingText[:0]; text == "" {
		return nil
	}
	piece := thoughtStep(text)
	if p.pendingLine.Type == acp.LineText {
		piece = subagentTextStep("", text)
	}
	piece.Data.Parent = p.pendingLine.Parent
	return append(p.endLine(), piece)
}

func (p *acpParser) handleLine(l acp.Line) []Piece {
	switch l.Type {
	case acp.LineText:
		return p.handleText(l)
	case acp.LineUpdate:
		return p.handleUpdate(l)
	case acp.LineClaude:
		return p.handleClaudeEvent(l)
	case acp.LinePermissionRequest:
		pieces := p.handleUpdate(l)
		var call struct {
			ID string `json:"toolCallId"`
		}
		if json.Unmarshal(l.Update, &call) == nil {
			pieces = append(pieces, p.reportCall(call.ID, l.At)...)
		}
		return pieces
	case acp.LineSession:
		p.session, p.model = l.Session, cmp.Or(p.model, oneLine(l.Model))
		if !l.Resumed {
			p.costBefore, p.sessionCost = 0, 0
		}
		if l.Text != "" {
			return []Piece{lostConversationStep(l.Text)}
		}
	case acp.LineState:
		p.permissionPending = l.State == acp.StateRequiresAction
		p.turnFailed = p.turnFailed && l.State != acp.StateRunning
		return []Piece{{}}
	case acp.LinePermissionAnswer:
		pieces := p.reportCall(l.ID, l.At)
		p.callStarts[l.ID] = l.At // the time in which nobody answered does not count
		if l.Allowed {
			return pieces
		}
		name, text := l.Title, l.Title
		if t := p.calls.Deny(l.ID); t != nil {
			name, text = t.Name, t.Text
		}
		for _, d := range p.claude.denialSteps(l.ID, name, l.Text) {
			d.Text = oneLine("denied: " + text + ": " + l.Text)
			pieces = append(pieces, p.addSteps(d)...)
		}
		return pieces
	case acp.LineTurn:
		p.turns++
		p.modelAnswered, p.startsMessage = true, true
		p.calls.EndAll()
		return append(p.endLine(), p.usageSteps(l)...)
	case acp.LineError:
		p.failure, p.failureCode = l.Text, l.Code
	}
	return nil
}

// reportCall reports a call that needs a permission, unless it was reported before.
func (p *acpParser) reportCall(id string, at int64) []Piece {
	if t := p.calls.Begin(id); t != nil {
		return p.callSteps(t, at)
	}
	return nil
}

// handleClaudeEvent handles an event of Claude Code that its adapter passes on.
func (p *acpParser) handleClaudeEvent(l acp.Line) []Piece {
	var e claudeEvent
	if err := json.Unmarshal(l.Update, &e); err != nil && !isTypeError(err) {
		return nil
	}
	if e.Type == "result" {
		return p.claude.handleResult(&e)
	}
	pieces := p.claude.handleNotice(l.Update)
	if len(pieces) > 0 {
		return p.addSteps(pieces...)
	}
	return nil
}

// usageSteps returns steps for the usage of a turn.
func (p *acpParser) usageSteps(l acp.Line) (pieces []Piece) {
	used := l.Models
	if len(used) == 0 && l.Usage != nil {
		used = []acp.Usage{*l.Usage}
	}
	for _, u := range used {
		p.model = cmp.Or(oneLine(u.Model), p.model)
		p.usage.add(tokens{in: u.Input, out: u.Output})
		pieces = append(pieces, usageStep(fleet.RequestUsage{
			Model: p.model, Input: u.Input - u.CacheRead - u.CacheWrite, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output,
			Turn: true, ContextTokens: p.contextTokens, ContextWindow: p.contextWindow,
		}))
	}
	return pieces
}

// handleText handles a piece of the agent's text.
func (p *acpParser) handleText(l acp.Line) []Piece {
	var pieces []Piece
	if p.startsMessage || l.ID != p.messageID {
		pieces = p.endLine()
		p.lastText = p.lastText[:0]
	}
	p.modelAnswered, p.startsMessage, p.messageID = true, false, l.ID
	p.lastText = appendPiece(p.lastText, l.Text)
	p.lineOpen = !strings.HasSuffix(l.Text, "\n")
	return append(pieces, Piece{Text: cleanString(l.Text)})
}

// endLine ends an incomplete line.
func (p *acpParser) endLine() []Piece {
	if !p.lineOpen {
		return nil
	}
	p.lineOpen = false
	return []Piece{{Text: "\n"}}
}

// addSteps returns the steps, after a piece that ends an incomplete line of text. The next text starts a new message.
func (p *acpParser) addSteps(steps ...Piece) []Piece {
	p.startsMessage = true
	return append(p.endLine(), steps...)
}

// callSteps returns steps for a tool call that has begun at the given time, in Unix milliseconds.
func (p *acpParser) callSteps(t *acp.ToolCall, at int64) []Piece {
	p.toolCount++
	p.callStarts[t.ID] = at
	pieces := p.addSteps(withSubagent(t, toolCallStep(t.Text, t.ID, toolName(t.Name), t.Input)))
	if items := todoItems(t.Input); len(items) > 0 {
		pieces = append(pieces, withSubagent(t, todoListStep(items)))
	}
	return pieces
}

// withSubagent returns the piece with the subagent that made the call.
func withSubagent(t *acp.ToolCall, p Piece) Piece {
	p.Data.Parent = t.Parent
	return p
}

// handleUpdate handles an update of the session: of its usage, its plan or a tool call, or an error of Codex.
func (p *acpParser) handleUpdate(l acp.Line) []Piece {
	var u struct {
		Kind    string      `json:"sessionUpdate"`
		Entries todoEntries `json:"entries"`
		Used    int64       `json:"used"`
		Size    int64       `json:"size"`
		Cost    *struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
		} `json:"cost"`
		Meta struct {
			Codex struct {
				Thread struct {
					Type string `json:"type"`
				} `json:"threadStatus"`
				Error *codexError `json:"error"`
			} `json:"codex"`
		} `json:"_meta"`
	}
	if json.Unmarshal(l.Update, &u) == nil && u.Kind == "usage_update" {
		p.contextTokens, p.contextWindow = max(0, u.Used), max(0, u.Size)
		if u.Cost != nil && u.Cost.Currency == "USD" {
			p.sessionCost = u.Cost.Amount
		}
	}
	if u.Meta.Codex.Thread.Type == "systemError" { // Codex reports a normal end of the turn even after an error
		p.turnFailed, p.startsMessage = true, true // the error is the next text
	}
	if e := u.Meta.Codex.Error; e != nil {
		p.apiCode, _ = acp.ParseCodexError(e.Info)
		return p.addSteps(e.retryStep())
	}
	if u.Kind == "plan" {
		return p.addSteps(todoListStep(u.Entries.items()))
	}
	begun, ended, result, failed := p.calls.Update(l.Update)
	pieces := []Piece{{}}
	if begun != nil {
		pieces = p.callSteps(begun, l.At)
	}
	if ended == nil {
		return pieces
	}
	duration := time.Duration(0)
	if at := p.callStarts[ended.ID]; at > 0 && l.At > at {
		duration = time.Duration(l.At-at) * time.Millisecond
	}
	delete(p.callStarts, ended.ID)
	pieces = append(pieces, p.addSteps(withSubagent(ended, toolResultStep(ended.ID, toolName(ended.Name), result, failed, duration)))...)
	for _, e := range ended.Edits {
		if !failed {
			pieces = append(pieces, withSubagent(ended, fileEditStep(ended.ID, e.Path, unifiedDiff(e.Old, e.New))))
		}
	}
	return pieces
}

func (p *acpParser) Result(e Exit) Result {
	o := exitOutcome(e, cmp.Or(p.failure, lastLine(e.Stderr), p.unknownOutput))
	switch {
	case p.failure != "":
		setFailed(&o, reasonText(p.failure))
		o.ReasonCode = p.failureCode
		if res := p.claude.result; res != nil && res.failed() {
			o.ReasonCode = cmp.Or(p.claude.failureCode(res), p.failureCode)
			p.claude.addLimitReason(&o)
		}
		if last := lastLine(e.Stderr); p.session == "" && last != "" {
			o.Reason = reasonText(p.failure + " (its last error: " + last + ")")
		}
	case e.Code == 0 && p.turnFailed:
		message := string(p.lastText)
		setFailed(&o, reasonText(codexFailureReason(message)))
		o.ReasonCode = cmp.Or(codexReasonCode(message), p.apiCode)
	case e.Code == 0 && p.turns == 0:
		setFailed(&o, p.format.Program+" ended without a result")
	}
	addFinalText(&o, string(p.lastText))
	o.Turns, o.CostUSD = p.turns, max(0, p.sessionCost-p.costBefore)
	o.Usage = fleet.Usage{Model: p.model, InputTokens: p.usage.in, OutputTokens: p.usage.out, ToolCalls: p.toolCount}
	cost := ""
	if p.sessionCost > 0 {
		cost = strconv.FormatFloat(p.sessionCost, 'f', -1, 64)
	}
	return Result{Outcome: o, Session: p.format.nextConversation(p.session, p.modelAnswered, cost)}
}
