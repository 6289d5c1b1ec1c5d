package claude

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"fleet/internal/runner/mailbox"
	"fleet/internal/runner/program"
	"fleet/internal/runner/question"
)

// Time limits.
var (
	interruptTimeout  = 2 * time.Second        // until an interrupted turn has ended; all steps of a stop together may take DefaultStopGrace
	closeTimeout      = 500 * time.Millisecond // after an interrupted turn, until a program whose input was closed has ended
	signalTimeout     = 700 * time.Millisecond // until a program has ended after a signal
	backgroundTimeout = 10 * time.Minute       // for work in the background after the last turn
	receiptTimeout    = 30 * time.Second       // until Claude Code confirms a message after its last turn
)

// maxAuthAttempts is how often Claude Code may send a request that is refused because of its key. Without this limit, Claude Code
// would try for several minutes.
const maxAuthAttempts = 2

// maxLine limits the length of a line that is read as a whole, in bytes. A longer line is only passed on.
const maxLine = 32 << 20

// conversation is the state of a run. Only the goroutine of run changes it.
type conversation struct {
	job            *Job
	out            io.Writer
	in             *input
	mailbox        *mailbox.Receiver
	questionServer *question.Server
	meter          *meter

	sentRequests   int                           // number of requests to Claude Code
	interruptID    string                        // id of the request that interrupts the turn
	unconfirmed    map[string]string             // mailbox ids of the messages that Claude Code has not taken, by UUID; an id is empty for Fleet's own messages
	idle           bool                          // no turn is in progress, and the first one has ended
	turnBegan      bool                          // a turn has begun
	closed         bool                          // no more messages will come
	closeRequested bool                          // the mailbox was asked to close
	stopping       bool                          // the run must end
	failed         bool                          // Fleet ends the run because it cannot succeed
	background     map[string]bool               // ids of work in the background
	subagents      map[string]bool               // ids of subagents that are working
	questions      map[string]context.CancelFunc // withdraws a question to people, by the id of Claude Code's request
	answeredIDs    chan string                   // keys of questions that were answered or withdrawn
	waitLimit      *time.Timer                   // ends the wait for work in the background and for receipts
}

func newConversation(j *Job, out, to io.Writer, box *mailbox.Receiver) *conversation {
	c := &conversation{
		job: j, out: out, in: &input{to: to}, mailbox: box,
		unconfirmed: map[string]string{}, background: map[string]bool{}, subagents: map[string]bool{},
		questions: map[string]context.CancelFunc{}, answeredIDs: make(chan string), waitLimit: time.NewTimer(backgroundTimeout),
	}
	c.waitLimit.Stop()
	c.meter = &meter{calls: map[string]time.Time{}, answers: map[string]*answer{}, writeNote: c.writeNote}
	if j.RunDir != "" {
		c.questionServer = question.NewServer(j.RunDir)
	}
	return c
}

// run executes the job and returns the program's exit code, or 1 instead of 0 if Fleet has ended the run because it could not
// succeed. When the context ends, run interrupts the turn and ends the program.
func run(ctx context.Context, j *Job, out io.Writer) (exitCode int, err error) {
	p, err := program.Start(j.Argv)
	if err != nil {
		return 0, err
	}
	c := newConversation(j, out, p.Stdin, mailbox.Open(j.MessagesFD))
	lines := make(chan []byte)
	go c.read(p.Stdout, lines)
	c.sendPrompt()
	questionCtx, cancel := context.WithCancel(context.Background())
	c.handleEvents(ctx, questionCtx, lines)
	cancel() // withdraws open questions
	c.mailbox.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for l := range lines {
			c.writeLine(l)
		}
	}()
	_ = p.Stdin.Close()
	if !c.stopping {
		// A version that does not report its work in the background waits for that work itself.
		limit := time.NewTimer(backgroundTimeout)
		defer limit.Stop()
		select {
		case <-p.Done:
		case <-ctx.Done():
		case <-limit.C:
		}
	}
	p.End(program.EndStep{Wait: closeTimeout, Signal: syscall.SIGINT}, program.EndStep{Wait: signalTimeout, Signal: syscall.SIGTERM},
		program.EndStep{Wait: signalTimeout, Signal: syscall.SIGKILL})
	select {
	case <-drained:
	case <-time.After(closeTimeout): // another process keeps the output open; the supervisor ends it
	}
	if exitCode = p.ExitCode(); exitCode == 0 && c.failed {
		exitCode = 1
	}
	return exitCode, nil
}

// read splits the output into lines. A line that is longer than maxLine comes in several pieces, which are not JSON.
func (c *conversation) read(from io.Reader, lines chan<- []byte) {
	defer close(lines)
	for r := bufio.NewReader(from); ; {
		var l []byte
		var err error
		for len(l) < maxLine {
			var piece []byte
			piece, err = r.ReadSlice('\n')
			l = append(l, piece...)
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if len(l) > 0 {
			lines <- l
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// sendPrompt sends the first message. Claude Code prints nothing before it has a message.
func (c *conversation) sendPrompt() {
	initialize := map[string]any{"subtype": "initialize"}
	if c.questionServer != nil {
		initialize["sdkMcpServers"] = []string{AskServer}
	}
	if c.job.System != "" {
		name := "appendSystemPrompt"
		if c.job.ReplacesSystemPrompt {
			name = "systemPrompt"
		}
		initialize[name] = c.job.System
	}
	c.sendRequest(initialize)
	var images []any
	for _, i := range c.job.Images {
		if b, err := i.block(); err == nil { // the prompt also has the path of the image
			images = append(images, b)
		}
	}
	c.sendMessage(c.job.ID, "", c.job.Prompt, images...)
}

// sendMessage sends a message to Claude Code. mailboxID is its id in the mailbox, if it comes from there.
func (c *conversation) sendMessage(id, mailboxID, text string, images ...any) {
	u := uuidOf(id)
	c.unconfirmed[u] = mailboxID
	c.in.send(userMessage(u, text, images...))
}

// sendRequest sends a request and returns its id.
func (c *conversation) sendRequest(request map[string]any) string {
	c.sentRequests++
	id := "fleet-" + strconv.Itoa(c.sentRequests)
	c.in.send(controlRequest(id, request))
	return id
}

// handleEvents handles lines, messages and answers until the conversation has ended. questionCtx is the context of questions.
func (c *conversation) handleEvents(ctx, questionCtx context.Context, lines <-chan []byte) {
	messages, closed, stop := c.mailbox.Messages(), c.mailbox.Closed(), ctx.Done()
	var interruptLimit <-chan time.Time
	for !c.canEnd() {
		select {
		case l, ok := <-lines:
			if !ok {
				return
			}
			c.handleLine(questionCtx, l)
		case m := <-messages:
			c.closeRequested = false
			c.sendMessage(m.ID, m.ID, m.Text)
		case <-closed:
			c.closed, closed = true, nil
		case id := <-c.answeredIDs:
			delete(c.questions, id)
		case <-c.waitLimit.C:
			c.giveUpWaiting()
		case <-stop:
			c.interruptTurn()
		case <-interruptLimit:
			return
		}
		if c.stopping && interruptLimit == nil {
			messages, stop, interruptLimit = nil, nil, time.After(interruptTimeout)
		}
		c.closeMailboxIfDone()
	}
}

// isDone reports whether Claude Code has nothing left to do.
func (c *conversation) isDone() bool {
	return c.idle && len(c.unconfirmed) == 0 && len(c.background) == 0
}

// canEnd reports whether the program can be ended.
func (c *conversation) canEnd() bool {
	if c.stopping {
		return c.idle && c.interruptID == ""
	}
	return c.closed && c.isDone()
}

// closeMailboxIfDone asks the mailbox to close if nothing is left to do.
func (c *conversation) closeMailboxIfDone() {
	if c.isDone() && !c.closeRequested && !c.stopping {
		c.closeRequested = true
		c.mailbox.RequestClose()
	}
}

// interruptTurn interrupts the turn. Claude Code then reports the cost of the turn.
func (c *conversation) interruptTurn() {
	if c.stopping {
		return
	}
	c.stopping = true
	for _, cancel := range c.questions {
		cancel()
	}
	c.interruptID = c.sendRequest(map[string]any{"subtype": "interrupt", "cancel_queued": true})
}

// giveUpWaiting stops background work that takes too long after the last turn. It also ends the wait for receipts, which some
// versions do not send.
func (c *conversation) giveUpWaiting() {
	if !c.idle {
		return
	}
	clear(c.unconfirmed) // these messages count as not delivered
	if len(c.background) > 0 {
		c.writeNote(map[string]any{"subtype": "background_stopped", "tasks": len(c.background), "seconds": int(backgroundTimeout.Seconds())})
	}
	for id := range c.background {
		c.sendRequest(map[string]any{"subtype": "stop_task", "task_id": id})
		delete(c.background, id)
	}
}

// writeNote writes a line of Fleet's own to the output.
func (c *conversation) writeNote(fields map[string]any) {
	fields["type"] = "fleet"
	if b, err := json.Marshal(fields); err == nil {
		c.writeLine(append(b, '\n'))
	}
}

// writeLine writes a line to the output. An error means that the supervisor has ended, and the run with it.
func (c *conversation) writeLine(l []byte) { _, _ = c.out.Write(l) }

// handleLine handles a line of Claude Code, and passes it on to the output unless it belongs to the control protocol. questionCtx is the
// context of questions.
func (c *conversation) handleLine(questionCtx context.Context, raw []byte) {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil && l.Type == "" {
		c.writeLine(raw)
		return
	}
	switch l.Type {
	case "control_request":
		c.handleRequest(questionCtx, l.RequestID, l.Request)
		return
	case "control_cancel_request":
		if cancel := c.questions[l.RequestID]; cancel != nil {
			cancel()
		}
		return
	case "control_response": // also Fleet's own answers, which Claude Code repeats
		if l.Response.RequestID == c.interruptID {
			c.interruptID = ""
		}
		return
	case "keep_alive":
		return
	case "command_lifecycle":
		c.handleLifecycle(l)
		return
	case "stream_event":
		c.meter.handleEvent(l.Parent, l.Event)
		if !c.job.ReportsRequests {
			return
		}
	case "assistant":
		c.meter.handleContent(l.Message.Content)
	case "user":
		if l.IsReplay {
			c.confirmTaken(l.UUID)
		}
		c.meter.handleContent(l.Message.Content)
	case "system":
		c.handleSystem(l)
	case "rate_limit_event":
		if l.Limit.isUsedUp() { // other work would be refused too
			c.failed = true
			c.interruptTurn()
		}
	case "result":
		for _, u := range l.MessageUUIDs {
			c.confirmTaken(u)
		}
		c.handleTurnEnd(l)
	}
	c.writeLine(raw)
}

// handleLifecycle handles the state of a message. A message that is completed without being started was begun in an earlier
// run of the conversation.
func (c *conversation) handleLifecycle(l line) {
	_, waiting := c.unconfirmed[l.CommandUUID]
	switch l.State {
	case "started":
		c.idle = false
		c.confirmTaken(l.CommandUUID)
	case "completed":
		c.confirmTaken(l.CommandUUID)
		if waiting && !c.turnBegan && l.CommandUUID == uuidOf(c.job.ID) {
			c.sendMessage(c.job.ID+" again", "", "Continue with your task.")
		}
	}
}

// confirmTaken handles Claude Code's receipt for the message with the UUID u.
func (c *conversation) confirmTaken(u string) {
	mailboxID, ok := c.unconfirmed[u]
	if !ok {
		return
	}
	delete(c.unconfirmed, u)
	if mailboxID != "" {
		c.mailbox.Ack(mailboxID)
	}
}

func (c *conversation) handleSystem(l line) {
	switch l.Subtype {
	case "init": // at the start of every turn
		c.turnBegan, c.idle = true, false
		c.waitLimit.Stop()
	case "background_tasks_changed":
		clear(c.background)
		for _, t := range l.Tasks {
			c.background[t.ID] = true
		}
	case "task_started":
		if l.TaskType == "local_agent" {
			c.subagents[l.TaskID] = true
		}
	case "task_notification":
		delete(c.subagents, l.TaskID)
	case "task_updated":
		if l.Patch.Status != "" {
			delete(c.subagents, l.TaskID)
		}
	case "api_retry":
		refused := l.ErrorStatus == 401 || l.ErrorStatus == 403
		if refused && l.Attempt >= maxAuthAttempts && !c.stopping {
			c.failed = true
			c.writeNote(map[string]any{"subtype": "gave_up", "error_status": l.ErrorStatus})
			c.interruptTurn()
		}
	}
}

// handleTurnEnd handles the result of a turn. If a turn ends at its cost limit, its subagents continue, and an interrupt does
// not end them. So handleTurnEnd stops them.
func (c *conversation) handleTurnEnd(l line) {
	c.idle = true
	for u, mailboxID := range c.unconfirmed {
		if mailboxID == "" { // even a version without receipts has taken the message
			delete(c.unconfirmed, u)
		}
	}
	c.waitLimit.Reset(backgroundTimeout)
	if len(c.background) == 0 && len(c.unconfirmed) > 0 {
		c.waitLimit.Reset(receiptTimeout)
	}
	if l.Subtype == "error_max_budget_usd" {
		for id := range c.subagents {
			c.sendRequest(map[string]any{"subtype": "stop_task", "task_id": id})
		}
	}
}

// handleRequest answers a request of Claude Code. It does not wait for people.
func (c *conversation) handleRequest(questionCtx context.Context, id string, r request) {
	switch {
	case r.Subtype == "mcp_message" && c.questionServer != nil && r.Server == AskServer:
		c.questionServer.HandleMessage(questionCtx, r.Message, func(reply json.RawMessage) {
			c.in.send(controlResponse(id, map[string]any{"mcp_response": reply}))
		})
	case r.Subtype == "can_use_tool" && c.job.RunDir != "":
		ctx, cancel := context.WithCancel(questionCtx)
		c.questions[id] = cancel
		go func() {
			verdict := question.RequestPermission(ctx, c.job.RunDir, r.Tool, r.Input, r.rules())
			if ctx.Err() == nil {
				c.in.send(controlResponse(id, verdict))
			}
			select {
			case c.answeredIDs <- id:
			case <-questionCtx.Done():
			}
		}()
	case r.Subtype == "elicitation":
		c.in.send(controlResponse(id, map[string]any{"action": "decline"}))
	default:
		c.in.send(controlError(id, fmt.Sprintf("Fleet does not answer %q", shortenWord(r.Subtype))))
	}
}

// shortenWord returns at most 80 bytes of the word, for an error message.
func shortenWord(word string) string {
	return string(bytes.ToValidUTF8([]byte(word[:min(len(word), 80)]), nil))
}
