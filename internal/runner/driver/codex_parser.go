package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// codexParser parses the events of `codex exec --json`, one per line. It skips unknown events.
type codexParser struct {
	unknownLines

	format        Format
	usageBefore   tokens // usage of the conversation before this run
	usage         tokens // usage of the conversation so far
	cacheRead     int64  // tokens of usage that were read from the cache
	cacheWrite    int64  // tokens of usage that were written to the cache
	session       string
	modelAnswered bool   // the model has answered, so it has received this run's instructions
	lastText      string // the model's last message
	lastError     string // the last error after which Codex continued
	failure       string
	failureCode   fleet.ReasonCode // of failure
	turns         int
	toolCount     int
	openItems     map[string]bool // items that have started and have not ended
}

func newCodexParser(f Format) *codexParser {
	p := &codexParser{format: f, openItems: map[string]bool{}}
	in, out, _ := strings.Cut(parseConversation(f.Session).usage, " ")
	p.usageBefore.in, _ = strconv.ParseInt(in, 10, 64)
	p.usageBefore.out, _ = strconv.ParseInt(out, 10, 64)
	p.usage = p.usageBefore
	return p
}

// OpenCalls implements CallCounter.
func (p *codexParser) OpenCalls() int { return len(p.openItems) }

func (p *codexParser) ParseLine(line []byte) []Piece {
	var e codexEvent
	if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
		return p.handleNonEvent(line)
	}
	switch e.Type {
	case "thread.started":
		p.hasKnownEvent, p.session = true, e.ThreadID
	case "turn.started":
		p.hasKnownEvent = true
		return []Piece{{}} // a sign of progress
	case "turn.completed":
		p.hasKnownEvent, p.modelAnswered = true, true
		p.turns++
		clear(p.openItems)
		if e.Usage != nil {
			return []Piece{p.turnUsage(e.Usage)}
		}
	case "turn.failed":
		p.hasKnownEvent, p.failure, p.failureCode = true, codexFailureReason(e.Error.Message), codexReasonCode(e.Error.Message)
		p.turns++
		clear(p.openItems)
	case "error":
		return p.handleError(e.Message)
	case "item.started", "item.updated", "item.completed":
		if e.Item != nil {
			p.hasKnownEvent = true
			return p.handleItem(e.Type, e.Item)
		}
	default:
		p.addUnknown(line)
	}
	return nil
}

// turnUsage returns a step for the usage of a turn. u is the usage of the conversation after the turn. The usage of the turn is u
// minus the usage of the conversation before the turn. Fleet does not know how many tokens earlier runs read from the cache, so all
// input of the first turn of a resumed conversation counts as not cached.
func (p *codexParser) turnUsage(u *codexUsage) Piece {
	before := p.usage
	p.usage = tokens{in: u.Input, out: u.Output}
	step := fleet.RequestUsage{Turn: true, Model: p.format.Model, Input: u.Input - before.in, Output: u.Output - before.out}
	if step.Input < 0 || step.Output < 0 { // the count was reset
		step.Input, step.Output = u.Input, u.Output
	}
	if p.turns > 1 || before == (tokens{}) {
		step.CacheRead = min(max(0, u.CacheRead-p.cacheRead), step.Input)
		step.CacheWrite = min(max(0, u.CacheWrite-p.cacheWrite), step.Input-step.CacheRead)
		step.Input -= step.CacheRead + step.CacheWrite
	}
	p.cacheRead, p.cacheWrite = u.CacheRead, u.CacheWrite
	return usageStep(step)
}

var digitsPattern = regexp.MustCompile(`\d+`)

// handleError handles an error after which Codex continues or ends. It does not report an error that repeats the previous error,
// because the repetition is not a sign of progress. But it reports each request to the model that Codex repeats.
func (p *codexParser) handleError(message string) []Piece {
	if attempt, limit, why := parseReconnecting(message); attempt > 0 {
		p.lastError = why
		return []Piece{codexRetryStep(attempt, limit, 0, why)}
	}
	message = codexFailureReason(message)
	same := digitsPattern.ReplaceAllString(message, "") == digitsPattern.ReplaceAllString(p.lastError, "")
	p.lastError = message
	if message == "" || same {
		return nil
	}
	return []Piece{stepPiece(message, &fleet.Step{Type: fleet.StepWarning, Message: reasonText(message)})}
}

// handleItem handles an event of an item. It reports a text when it is complete, a tool call when it starts, and the
// result when it ends.
func (p *codexParser) handleItem(event string, i *codexItem) []Piece {
	if i.Type == "error" {
		return p.handleError(i.Message)
	}
	p.modelAnswered = true
	pieces := []Piece{{}} // a sign of progress
	switch i.Type {
	case "agent_message", "reasoning":
		switch {
		case event != "item.completed" || strings.TrimSpace(i.Text) == "":
			return pieces
		case i.Type == "reasoning":
			return []Piece{thoughtStep(i.Text)}
		}
		p.lastText = i.Text
		return []Piece{{Text: cleanString(strings.TrimRight(i.Text, "\n")) + "\n"}}
	case "todo_list":
		return []Piece{todoListStep(i.todoItems())}
	}
	name, text, input := i.tool()
	_, begun := p.openItems[i.ID]
	if !begun {
		p.toolCount++
		pieces = []Piece{toolCallStep(text, i.ID, name, input)}
	}
	if event != "item.completed" {
		p.openItems[i.ID] = true
		return pieces
	}
	delete(p.openItems, i.ID)
	failed := i.Status == "failed" || i.Status == "declined"
	pieces = append(pieces, toolResultStep(i.ID, name, i.result(), failed, 0))
	for _, c := range i.Changes {
		if !failed {
			pieces = append(pieces, fileEditStep(i.ID, c.Path, ""))
		}
	}
	return pieces
}

func (p *codexParser) Result(e Exit) Result {
	o := exitOutcome(e, cmp.Or(lastLine(e.Stderr), p.lastNonEvent))
	switch {
	case p.failure != "":
		setFailed(&o, reasonText(p.failure))
		o.ReasonCode = p.failureCode
	case !p.hasKnownEvent && e.Signal == "":
		o.Status = fleet.TaskFailed
		o.Reason = unknownOutputReason(o.Reason, p.firstUnknown, "codex", "", p.format.TestedVersion)
		o.ReasonCode = fleet.CodeProgramChanged
	case e.Code == 0 && p.turns == 0:
		setFailed(&o, unknownOutputReason("codex ended before it completed a turn", "", "codex", "", p.format.TestedVersion))
	}
	addFinalText(&o, p.lastText)
	o.Turns = p.turns
	used := tokens{in: p.usage.in - p.usageBefore.in, out: p.usage.out - p.usageBefore.out}
	if used.in < 0 || used.out < 0 { // the count was reset
		used = p.usage
	}
	o.Usage = fleet.Usage{Model: p.format.Model, InputTokens: used.in, OutputTokens: used.out, ToolCalls: p.toolCount}
	usage := ""
	if p.usage != (tokens{}) {
		usage = fmt.Sprintf("%d %d", p.usage.in, p.usage.out)
	}
	r := Result{Outcome: o, Session: p.format.nextConversation(p.session, p.modelAnswered, usage)}
	if id := parseConversation(p.format.Session).id; id != "" && p.session == "" && strings.Contains(e.Stderr, "no rollout found") {
		r.Session, r.LostConversation, r.Outcome.ReasonCode = "", true, ""
		r.Outcome.Reason = "codex no longer has the conversation " + id + "; the agent's next task begins a new conversation"
	}
	return r
}
