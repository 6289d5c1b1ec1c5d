package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/acp-go-sdk"

	"fleet/internal/fleet"
	"fleet/internal/runner/mailbox"
	"fleet/internal/runner/program"
)

// Time limits of requests. The prompt has no limit here, because the supervisor limits the time of the run.
var (
	startTimeout   = 90 * time.Second // for the first answer of a program, which may have to unpack itself first
	requestTimeout = 90 * time.Second
	cancelTimeout  = 3 * time.Second // until a cancelled turn has ended
	closeTimeout   = 2 * time.Second // until a program whose input was closed has ended
	termTimeout    = time.Second     // until a program has ended after SIGTERM
)

// client speaks the protocol with the program of one job.
type client struct {
	job          *Job
	out          *output
	program      *program.Program
	lineReader   *lineReader
	conn         *acp.Connection
	dir          string
	quit         <-chan struct{} // closed when the run must end
	reportedName string          // the program's own name
	version      string          // the program's version, as the program reports it
	meta         map[string]any  // extra settings of a session, see claudeMeta
	session      string          // id of the session; empty until it has started

	mu             sync.Mutex      // guards the fields below
	replaying      bool            // the program repeats the session's history; its updates are ignored
	ignoredUpdates int             // number of ignored updates
	calls          map[string]call // reported tool calls that have not ended, by id
	cancelling     bool            // the turn is being cancelled
	openRequests   int             // number of requests for permission that wait for people
}

// run executes the job. When the context ends after the start of the program, run cancels the turn, ends the program and
// returns no error.
func run(ctx context.Context, j *Job, out *output) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	j.Policy.dir = dir
	p, err := program.Start(j.Argv)
	if err != nil {
		return err
	}
	c := &client{job: j, out: out, program: p, dir: dir, quit: ctx.Done(), calls: map[string]call{}}
	c.lineReader = &lineReader{lines: bufio.NewReader(p.Stdout), onUpdate: c.handleUpdate, onClaudeEvent: c.passClaudeEvent}
	c.conn = acp.NewConnection(c.handle, p.Stdin, c.lineReader)
	c.conn.SetLogger(slog.New(slog.DiscardHandler)) // the connection's log messages contain the agent's texts
	box := mailbox.Open(j.MessagesFD)
	err = c.runSession(ctx, box)
	box.Close()
	wait := closeTimeout
	if ctx.Err() != nil {
		wait = 0 // the program had time to end while its turn was cancelled
		err = nil
	}
	p.End(program.EndStep{Wait: wait, Signal: syscall.SIGTERM}, program.EndStep{Wait: termTimeout, Signal: syscall.SIGKILL})
	return err
}

// runSession starts or continues a session. It sends the prompt, and then each message that has arrived in the meantime. It
// returns when a turn has ended and no message is left.
func (c *client) runSession(ctx context.Context, box *mailbox.Receiver) error {
	info, err := c.initialize(ctx)
	if err != nil {
		return err
	}
	resumed, err := c.startSession(ctx, info)
	if err != nil {
		return err
	}
	prompt := c.job.FirstPrompt
	if resumed {
		prompt = c.job.Prompt
	} else if c.job.Session != "" {
		prompt = LostConversationNote + prompt
	}
	for ctx.Err() == nil {
		if err := c.runTurn(ctx, prompt); err != nil {
			return err
		}
		m, more := box.Next()
		if !more {
			return nil
		}
		box.Ack(m.ID)
		prompt = m.Text
	}
	return nil
}

// LostConversationNote tells an agent that its earlier conversation is lost.
const LostConversationNote = "(The conversation that you had before could not be restored. This is a new conversation.)\n\n"

// programName returns the name and the version of the program, for error texts.
func (c *client) programName() string {
	name := filepath.Base(c.job.Argv[0])
	if c.version != "" {
		name += " " + c.version
	}
	return name
}

// testedVersionSuffix returns the end of an error text. It names the version of the program with which Fleet was tested.
func (c *client) testedVersionSuffix() string {
	if c.job.TestedVersion == "" {
		return ""
	}
	return "; Fleet was tested with " + c.job.TestedVersion
}

// request sends a request and waits for its answer, for at most limit. An error that the program returned is an
// *acp.RequestError.
func request[T any](ctx context.Context, c *client, limit time.Duration, method string, params any) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooSlow)
	defer cancel()
	answer, err := acp.SendRequest[T](c.conn, ctx, method, params)
	if err == nil {
		return answer, nil
	}
	select {
	case <-c.conn.Done():
		return answer, c.closedError()
	default:
	}
	if errors.Is(context.Cause(ctx), errTooSlow) {
		return answer, fmt.Errorf("%s did not answer %s within %s%s%s", c.programName(), method, limit, c.lastOutputSuffix(), c.testedVersionSuffix())
	}
	return answer, err
}

var errTooSlow = errors.New("the program is too slow")

// lastOutputSuffix returns the end of an error text. It quotes the program's last output that does not belong to the protocol.
func (c *client) lastOutputSuffix() string {
	if s := c.lineReader.unknownLine(); s != "" {
		return fmt.Sprintf("; its output was %q", s)
	}
	return ""
}

// closedError returns the error for a program that has closed its output before it answered.
func (c *client) closedError() error {
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	how := "closed its output"
	select {
	case <-c.program.Done:
		how = "ended by itself"
		if err := c.program.Err; err != nil {
			how += " (" + err.Error() + ")"
		}
	case <-timer.C:
	}
	return fmt.Errorf("%s %s before it had answered%s%s", c.programName(), how, c.lastOutputSuffix(), c.testedVersionSuffix())
}

// wrapError adds the program's name, what failed and the code to an error that the program returned. It does not change
// other errors.
func (c *client) wrapError(what string, err error) error {
	r, refused := errors.AsType[*acp.RequestError](err)
	if !refused {
		return err
	}
	return codedError{fmt.Errorf("%s: %s: %s", c.programName(), what, errorText(r)), codeOfRequestError(r)}
}

// errorText returns the message of the error with its details.
func errorText(r *acp.RequestError) string {
	text := r.Message
	if m, ok := r.Data.(map[string]any); ok {
		for _, key := range []string{"details", "error", "message"} {
			if s, ok := m[key].(string); ok && !strings.Contains(text, s) {
				return text + ": " + s
			}
		}
	}
	if s, ok := r.Data.(string); ok && !strings.Contains(text, s) {
		text += ": " + s
	}
	return text
}

// handle answers the program's requests.
func (c *client) handle(ctx context.Context, method string, params json.RawMessage) (any, *acp.RequestError) {
	if method == acp.ClientMethodSessionRequestPermission {
		return c.answerPermission(ctx, params)
	}
	// The client has offered neither files nor terminals, and it cannot pass on questions.
	return nil, acp.NewMethodNotFound(method)
}

// handleUpdate handles an update of the session, and passes it on to the output. It does not pass on the history that the
// program repeats, except its usage, and updates that Fleet does not need.
func (c *client) handleUpdate(params json.RawMessage) {
	var p struct {
		Update json.RawMessage `json:"update"`
	}
	var u struct {
		Kind    string `json:"sessionUpdate"`
		Message string `json:"messageId"`
		Status  string `json:"status"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
		Meta struct {
			Claude struct {
				Parent string `json:"parentToolUseId"`
			} `json:"claudeCode"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil || len(p.Update) == 0 {
		return
	}
	_ = json.Unmarshal(p.Update, &u) // an error does not matter: the content of a tool call is a list
	c.mu.Lock()
	replaying := c.replaying
	if replaying {
		c.ignoredUpdates++
	}
	var updated call
	if strings.HasPrefix(u.Kind, "tool_call") && json.Unmarshal(p.Update, &updated) == nil {
		updated.fillFrom(c.calls[updated.ID])
		if c.calls[updated.ID] = updated; u.Status == "completed" || u.Status == "failed" {
			delete(c.calls, updated.ID)
		}
	}
	c.mu.Unlock()
	switch {
	case replaying && u.Kind != "usage_update", u.Kind == "available_commands_update", u.Kind == "user_message_chunk":
	case u.Kind == "agent_message_chunk" && u.Content.Text != "":
		c.out.addText(Line{Type: LineText, ID: u.Message, Parent: u.Meta.Claude.Parent, Text: u.Content.Text})
	case u.Kind == "agent_thought_chunk":
		c.out.addText(Line{Type: LineThought, ID: u.Message, Parent: u.Meta.Claude.Parent, Text: u.Content.Text})
	default:
		c.out.write(Line{Type: LineUpdate, Update: p.Update, At: time.Now().UnixMilli()})
	}
}

// runTurn sends a prompt to the session and waits until the turn has ended. It returns an error if the turn did not end normally.
// A cancelled turn is not an error.
func (c *client) runTurn(ctx context.Context, prompt string) error {
	c.out.write(Line{Type: LineState, State: StateRunning})
	type reply struct {
		StopReason string `json:"stopReason"`
		promptUsage
	}
	// To cancel a prompt, the client sends a notification. The program then still answers the prompt.
	turnCtx, endTurn := context.WithCancel(context.WithoutCancel(ctx))
	defer endTurn()
	timeout := cancelTimeout
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		c.cancelling = true
		c.mu.Unlock()
		_ = c.conn.SendNotification(turnCtx, acp.AgentMethodSessionCancel, acp.CancelNotification{SessionId: acp.SessionId(c.session)})
		time.AfterFunc(timeout, endTurn)
	})()
	r, err := acp.SendRequest[reply](c.conn, turnCtx, acp.AgentMethodSessionPrompt, acp.PromptRequest{
		SessionId: acp.SessionId(c.session), Prompt: []acp.ContentBlock{acp.TextBlock(prompt)},
	})
	c.out.write(Line{Type: LineState, State: StateIdle})
	if err != nil {
		if ctx.Err() != nil {
			c.out.write(Line{Type: LineTurn, StopReason: string(acp.StopReasonCancelled)})
			return nil
		}
		select {
		case <-c.conn.Done():
			return c.closedError()
		default:
		}
		return c.wrapError("the prompt failed", err)
	}
	c.out.write(Line{Type: LineTurn, StopReason: r.StopReason, Usage: r.total(), Models: r.models()})
	switch r.StopReason {
	case "":
		return fmt.Errorf("%s ended the turn without a stop reason%s", c.programName(), c.testedVersionSuffix())
	case string(acp.StopReasonEndTurn), string(acp.StopReasonCancelled):
		return nil
	case string(acp.StopReasonMaxTokens):
		return codedError{fmt.Errorf("%s reached the limit of tokens of its model", c.programName()), codeOfTokenLimit(c.reportedName)}
	case string(acp.StopReasonMaxTurnRequests):
		return codedError{fmt.Errorf("%s reached its limit of requests to its model", c.programName()), fleet.CodeMaxTurns}
	case string(acp.StopReasonRefusal):
		return codedError{fmt.Errorf("%s: the model refused the task", c.programName()), fleet.CodeRefused}
	}
	return fmt.Errorf("%s ended the turn with %q, which this version of Fleet does not know%s", c.programName(), r.StopReason, c.testedVersionSuffix())
}
