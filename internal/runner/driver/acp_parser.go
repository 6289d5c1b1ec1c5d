package driver

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
)

// acpParser parses the output of the client in package acp.
type acpParser struct {
	format  Format
	resumed conversation
	before  float64 // cost of the session before this run, in US dollars
	calls   *acp.Calls
	waits   bool // a request for a permission waits for its answer
	claude  *claudeParser

	session       string
	heard         bool             // the model has answered, so it has received this run's instructions
	aside         acp.Line         // a thought or a text of a subagent that was not reported so far
	asideText     []byte           // of aside
	begun         map[string]int64 // when tool calls began, in Unix milliseconds; 0 if unknown
	lastText      []byte           // text of the agent's current or last message
	message       string           // id of that message
	broken        bool             // the next text starts a new message
	midline       bool             // the output does not end with a newline
	failed        string
	code          fleet.ReasonCode // of failed
	apiCode       fleet.ReasonCode // of the newest error of the model's API after which Codex continued
	errored       bool             // Codex reported that an error ended the turn; the error is the agent's last text
	turns         int
	model         string // of the session, or the one that answered last
	used          tokens
	context       int64 // tokens in the conversation
	window        int64 // tokens that fit into the conversation
	tools         int
	cost          float64 // of the session so far
	unknownOutput string  // the last line that is not from the client in package acp
}

func newACPParser(f Format) *acpParser {
	p := &acpParser{format: f, resumed: parseConversation(f.Resumed), calls: acp.NewCalls(), claude: newClaudeParser(Format{}), begun: map[string]int64{}, model: f.Model}
	told, cost, _ := strings.Cut(p.resumed.told, " ")
	p.resumed.told = told
	p.before, _ = strconv.ParseFloat(cost, 64)
	p.cost = p.before
	return p
}

// Open implements Opener.
func (p *acpParser) Open() int {
	if p.waits {
		return p.calls.Open() + 1
	}
	return p.calls.Open()
}

func (p *acpParser) Line(line []byte) []Piece {
	var l acp.Line
	if err := json.Unmarshal(line, &l); err != nil || l.Type == "" {
		text := Clean(line)
		p.unknownOutput = plain(text)
		return []Piece{{Text: text + "\n"}}
	}
	if l.Type != acp.LineThought && (l.Type != acp.LineText || l.Parent == "") {
		return append(p.endAside(), p.line(l)...)
	}
	pieces := []Piece{{}} // a sign of progress
	if l.Type != p.aside.Type || l.Parent != p.aside.Parent || l.Parent != "" && l.ID != p.aside.ID {
		pieces = append(pieces, p.endAside()...)
	}
	p.aside, p.asideText = l, join(p.asideText, l.Text)
	return pieces
}

// endAside reports the thought, or the text of a subagent, before the current line.
func (p *acpParser) endAside() []Piece {
	text := strings.TrimSpace(string(p.asideText))
	if p.asideText = p.asideText[:0]; text == "" {
		return nil
	}
	said := thought(text)
	if p.aside.Type == acp.LineText {
		said = subagentText("", text)
	}
	said.Data.Parent = p.aside.Parent
	return append(p.endLine(), said)
}

func (p *acpParser) line(l acp.Line) []Piece {
	switch l.Type {
	case acp.LineText:
		return p.text(l)
	case acp.LineUpdate:
		return p.update(l)
	case acp.LineClaude:
		return p.claudeEvent(l)
	case acp.LineAsked:
		pieces := p.update(l)
		var call struct {
			ID string `json:"toolCallId"`
		}
		if json.Unmarshal(l.Update, &call) == nil {
			pieces = append(pieces, p.begin(call.ID, l.At)...)
		}
		return pieces
	case acp.LineSession:
		p.session, p.model = l.Session, cmp.Or(p.model, oneLine(valid(l.Model)))
		if !l.Resumed {
			p.before, p.cost = 0, 0
		}
		if l.Text != "" {
			return []Piece{lostConversation(l.Text)}
		}
	case acp.LineState:
		p.waits = l.State == acp.StateRequiresAction
		p.errored = p.errored && l.State != acp.StateRunning
		return []Piece{{}}
	case acp.LinePermission:
		pieces := p.begin(l.ID, l.At)
		p.begun[l.ID] = l.At // the time in which nobody answered does not count
		if l.Allowed {
			return pieces
		}
		name, text := l.Title, l.Title
		if t := p.calls.Denied(l.ID); t != nil {
			name, text = t.Name, t.Text
		}
		for _, d := range p.claude.deny(l.ID, name, l.Text) {
			d.Text = oneLine(valid("denied: " + text + ": " + l.Text))
			pieces = append(pieces, p.step(d)...)
		}
		return pieces
	case acp.LineTurn:
		p.turns++
		p.heard, p.broken = true, true
		p.calls.End()
		return append(p.endLine(), p.usage(l)...)
	case acp.LineError:
		p.failed, p.code = l.Text, l.Code
	}
	return nil
}

// begin reports a call that needs a permission, unless it was reported before.
func (p *acpParser) begin(id string, at int64) []Piece {
	if t := p.calls.Begin(id); t != nil {
		return p.call(t, at)
	}
	return nil
}

// claudeEvent handles an event of Claude Code that its adapter passes on.
func (p *acpParser) claudeEvent(l acp.Line) []Piece {
	var e claudeEvent
	if err := json.Unmarshal(l.Update, &e); err != nil && !wrongType(err) {
		return nil
	}
	if e.Type == "result" {
		return p.claude.ended(&e)
	}
	pieces := p.claude.notice(l.Update)
	if len(pieces) > 0 {
		return p.step(pieces...)
	}
	return nil
}

// usage returns steps for the usage of a turn.
func (p *acpParser) usage(l acp.Line) (pieces []Piece) {
	used := l.Models
	if len(used) == 0 && l.Usage != nil {
		used = []acp.Usage{*l.Usage}
	}
	for _, u := range used {
		p.model = cmp.Or(oneLine(valid(u.Model)), p.model)
		p.used.add(tokens{in: u.Input, out: u.Output})
		pieces = append(pieces, usageStep(fleet.StepUsed{
			Model: p.model, Input: u.Input - u.CacheRead - u.CacheWrite, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output,
			Turn: true, Context: p.context, Window: p.window,
		}))
	}
	return pieces
}

// text handles a piece of the agent's text.
func (p *acpParser) text(l acp.Line) []Piece {
	var pieces []Piece
	if p.broken || l.ID != p.message {
		pieces = p.endLine()
		p.lastText = p.lastText[:0]
	}
	p.heard, p.broken, p.message = true, false, l.ID
	p.lastText = join(p.lastText, l.Text)
	p.midline = !strings.HasSuffix(l.Text, "\n")
	return append(pieces, Piece{Text: valid(l.Text)})
}

// endLine ends an incomplete line.
func (p *acpParser) endLine() []Piece {
	if !p.midline {
		return nil
	}
	p.midline = false
	return []Piece{{Text: "\n"}}
}

// step adds steps, which end an incomplete line of text.
func (p *acpParser) step(steps ...Piece) []Piece {
	p.broken = true
	return append(p.endLine(), steps...)
}

func (p *acpParser) call(t *acp.Tool, at int64) []Piece {
	p.tools++
	p.begun[t.ID] = at
	pieces := p.step(by(t, toolCall(t.Text, t.ID, toolName(t.Name), t.Input)))
	if items := todos(t.Input); len(items) > 0 {
		pieces = append(pieces, by(t, todoList(items)))
	}
	return pieces
}

// by adds to the piece which subagent made the call.
func by(t *acp.Tool, p Piece) Piece {
	p.Data.Parent = t.Parent
	return p
}

// todos returns the list of things to do in the arguments of a call, or nil if there is none. OpenCode does not report its list in
// another way.
func todos(arguments json.RawMessage) []fleet.TodoItem {
	var list struct {
		Todos todoEntries `json:"todos"`
	}
	if json.Unmarshal(arguments, &list) != nil {
		return nil
	}
	return list.Todos.items()
}

// todoEntries is a list of things to do, as in plans of the protocol and in the arguments of tools.
type todoEntries []struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

func (l todoEntries) items() []fleet.TodoItem {
	items := make([]fleet.TodoItem, len(l))
	for i, e := range l {
		items[i] = fleet.TodoItem{Text: e.Content, Status: oneLine(valid(e.Status))}
	}
	return items
}

func (p *acpParser) update(l acp.Line) []Piece {
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
		p.context, p.window = max(0, u.Used), max(0, u.Size)
		if u.Cost != nil && u.Cost.Currency == "USD" {
			p.cost = u.Cost.Amount
		}
	}
	if u.Meta.Codex.Thread.Type == "systemError" { // Codex reports a normal end of the turn even after an error
		p.errored, p.broken = true, true // the error is the next text
	}
	if e := u.Meta.Codex.Error; e != nil {
		p.apiCode, _ = acp.CodexError(e.Info)
		return p.step(e.retry())
	}
	if u.Kind == "plan" {
		return p.step(todoList(u.Entries.items()))
	}
	begun, ended, result, failed := p.calls.Update(l.Update)
	pieces := []Piece{{}}
	if begun != nil {
		pieces = p.call(begun, l.At)
	}
	if ended == nil {
		return pieces
	}
	took := time.Duration(0)
	if at := p.begun[ended.ID]; at > 0 && l.At > at {
		took = time.Duration(l.At-at) * time.Millisecond
	}
	delete(p.begun, ended.ID)
	pieces = append(pieces, p.step(by(ended, toolResult(ended.ID, toolName(ended.Name), result, failed, took)))...)
	for _, e := range ended.Edits {
		if !failed {
			pieces = append(pieces, by(ended, fileEdit(ended.ID, e.Path, unified(e.Old, e.New))))
		}
	}
	return pieces
}

func (p *acpParser) Result(e Exit) Result {
	why := p.failed
	if why == "" {
		why = lastLine(e.Stderr)
	}
	if why == "" {
		why = p.unknownOutput
	}
	o := outcome(e, shorten(valid(why), maxReason))
	switch {
	case p.failed != "":
		fail(&o, shorten(valid(p.failed), maxReason))
		o.ReasonCode = p.code
		if res := p.claude.result; res != nil && res.failed() {
			o.ReasonCode = cmp.Or(p.claude.failureCode(res), p.code)
			p.claude.explain(&o)
		}
		if last := lastLine(e.Stderr); p.session == "" && last != "" {
			o.Reason = shorten(valid(p.failed+" (its last error: "+last+")"), maxReason)
		}
	case e.Code == 0 && p.errored:
		message := string(p.lastText)
		fail(&o, shorten(valid(codexFailure(message)), maxReason))
		o.ReasonCode = cmp.Or(codexCode(message), p.apiCode)
	case e.Code == 0 && p.turns == 0:
		fail(&o, p.format.Program+" ended without a result")
	}
	report(&o, string(p.lastText))
	o.Turns, o.CostUSD = p.turns, max(0, p.cost-p.before)
	o.Usage = fleet.Usage{Model: p.model, InputTokens: p.used.in, OutputTokens: p.used.out, ToolCalls: p.tools}
	return Result{Outcome: o, Session: p.conversation()}
}

// conversation returns the conversation that the agent's next run continues.
func (p *acpParser) conversation() string {
	if p.session == "" {
		return p.format.Resumed
	}
	told := p.format.Told
	if !p.heard && p.session == p.resumed.id {
		told = p.resumed.told
	}
	if p.cost > 0 {
		told += " " + strconv.FormatFloat(p.cost, 'f', -1, 64)
	}
	return conversation{p.session, told}.String()
}

// maxDiffed limits the texts between which a patch is computed, in bytes.
const maxDiffed = 256 << 10

// unified returns the change between two texts in the unified format, without file names.
func unified(before, after string) string {
	if len(before)+len(after) > maxDiffed {
		return ""
	}
	if before != "" && after != "" && !strings.HasSuffix(before, "\n") && !strings.HasSuffix(after, "\n") { // they are parts of lines
		before, after = before+"\n", after+"\n"
	}
	patch := udiff.Unified("", "", before, after)
	_, patch, _ = strings.Cut(patch, "\n") // --- and +++
	_, patch, _ = strings.Cut(patch, "\n")
	return patch
}
