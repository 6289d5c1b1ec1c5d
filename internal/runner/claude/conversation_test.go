package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/mailbox"
	"fleet/internal/waittest"
)

// output is the output of a run. Each written line is also sent to lines.
type output struct {
	mu    sync.Mutex
	all   bytes.Buffer
	lines chan string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines <- strings.TrimSpace(string(p))
	return o.all.Write(p)
}

// waitForLine waits for a line with the text.
func (o *output) waitForLine(t *testing.T, text string) {
	t.Helper()
	limit := time.After(waittest.Limit)
	for {
		select {
		case l := <-o.lines:
			if strings.Contains(l, text) {
				return
			}
		case <-limit:
			require.Fail(t, "no line contains "+text, o.all.String())
		}
	}
}

// fakeRun is a run of the fake Claude Code, see actAsClaude.
type fakeRun struct {
	out      *output
	send     func(id, text string) error
	stop     func()
	exitCode chan int
}

// start starts a run of the fake Claude Code with the script. change may change the job; it may be nil.
func start(t *testing.T, script string, change func(*Job)) *fakeRun {
	t.Helper()
	t.Setenv("FAKE_CLAUDE", "1")
	exe, err := os.Executable()
	require.NoError(t, err)
	ours, fd, err := mailbox.Pair()
	require.NoError(t, err)
	s := mailbox.NewSender(ours, func(string) {})
	t.Cleanup(s.Close)
	j := &Job{Argv: []string{exe}, ID: "run", Prompt: script, MessagesFD: fd}
	if change != nil {
		change(j)
	}
	ctx, stop := context.WithCancel(t.Context())
	p := &fakeRun{
		out: &output{lines: make(chan string, 1000)}, exitCode: make(chan int, 1), stop: stop,
		send: func(id, text string) error { return s.Send(mailbox.Message{ID: id, Text: text}) },
	}
	go func() {
		exitCode, err := run(ctx, j, p.out)
		if err != nil {
			t.Error(err)
		}
		p.exitCode <- exitCode
	}()
	return p
}

// wait waits for the end of the run, and returns its exit code.
func (f *fakeRun) wait(t *testing.T) int {
	t.Helper()
	select {
	case s := <-f.exitCode:
		return s
	case <-time.After(waittest.Limit):
		require.Fail(t, "the run does not end", f.out.all.String())
		return 0
	}
}

func TestTurn(t *testing.T) {
	p := start(t, "turn\nprint no JSON\nprint {\"type\":\"assistant\"}\nresult", nil)
	require.Zero(t, p.wait(t))
	require.Equal(t, `{"type":"system","subtype":"init"}
no JSON
{"type":"assistant"}
{"type":"result","subtype":"success"}
`, p.out.all.String())
	require.ErrorIs(t, p.send("m1", "too late"), mailbox.ErrClosed)
}

func TestMessages(t *testing.T) {
	p := start(t, "turn\ntake\ntake\nresult\nprint {\"type\":\"system\",\"subtype\":\"init\"}\nresult", nil)
	require.NoError(t, p.send("m1", "the first message"))
	p.out.waitForLine(t, "the first message")
	require.NoError(t, p.send("m2", "the second message"))
	require.Zero(t, p.wait(t))
	require.Contains(t, p.out.all.String(), "the second message")
}

// TestMessageThatIsNotTaken checks that a message does not count as delivered if Claude Code ends before it takes the message.
func TestMessageThatIsNotTaken(t *testing.T) {
	p := start(t, "turn\nread\nexit 3", nil)
	require.ErrorIs(t, p.send("m1", "hello"), mailbox.ErrClosed)
	require.Equal(t, 3, p.wait(t))
}

// TestRepeatedMessage checks what happens if Claude Code drops a message that it has begun before, and reports it as
// completed.
func TestRepeatedMessage(t *testing.T) {
	t.Run("a message", func(t *testing.T) {
		p := start(t, `turn
read
print {"type":"command_lifecycle","command_uuid":"`+uuidOf("m1")+`","state":"completed"}
result`, nil)
		require.NoError(t, p.send("m1", "again"))
		require.Zero(t, p.wait(t))
	})
	t.Run("the prompt", func(t *testing.T) {
		p := start(t, `print {"type":"command_lifecycle","command_uuid":"PROMPT","state":"completed"}
take
print {"type":"system","subtype":"init"}
result`, nil)
		require.Zero(t, p.wait(t))
		require.Contains(t, p.out.all.String(), "Continue with your task.")
	})
}

// extendTimeLimits gives Claude Code as much time to end a turn, and to end itself, as it needs.
func extendTimeLimits(t *testing.T) {
	limits := []*time.Duration{&interruptTimeout, &closeTimeout, &signalTimeout}
	for _, d := range limits {
		before := *d
		t.Cleanup(func() { *d = before })
		*d = waittest.Limit
	}
}

func TestStop(t *testing.T) {
	t.Run("a turn", func(t *testing.T) {
		extendTimeLimits(t)
		p := start(t, "turn\ninterrupted\nexit 1", nil)
		p.out.waitForLine(t, "init")
		p.stop()
		require.Equal(t, 1, p.wait(t))
		require.Contains(t, p.out.all.String(), `"total_cost_usd":0.5`, "the interrupted turn must report its cost")
	})
	t.Run("a program that ignores everything", func(t *testing.T) {
		defer func(before time.Duration) { interruptTimeout = before }(interruptTimeout)
		interruptTimeout = 100 * time.Millisecond
		p := start(t, "ignore\nturn\nhang", nil)
		p.out.waitForLine(t, "init")
		p.stop()
		require.Equal(t, exitCodeKilled, p.wait(t))
	})
}

func TestWorkInTheBackground(t *testing.T) {
	const background = `print {"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1"}]}`
	t.Run("that ends", func(t *testing.T) {
		p := start(t, "turn\n"+background+"\nresult\ntake\n"+`print {"type":"system","subtype":"background_tasks_changed","tasks":[]}`+"\nresult", nil)
		p.out.waitForLine(t, "result")
		require.NoError(t, p.send("m1", "the run is not over"))
		require.Zero(t, p.wait(t))
	})
	t.Run("that takes too long", func(t *testing.T) {
		extendTimeLimits(t)
		defer func(before time.Duration) { backgroundTimeout = before }(backgroundTimeout)
		backgroundTimeout = 50 * time.Millisecond
		p := start(t, "turn\n"+background+"\nresult\nread", nil)
		require.Zero(t, p.wait(t))
		require.Contains(t, p.out.all.String(), `"subtype":"background_stopped"`)
	})
	t.Run("at the limit of cost", func(t *testing.T) {
		p := start(t, `turn
print {"type":"system","subtype":"task_started","task_id":"s1","task_type":"local_agent"}
print {"type":"result","subtype":"error_max_budget_usd","is_error":true}
read
exit 1`, nil)
		require.Equal(t, 1, p.wait(t))
		require.Contains(t, p.out.all.String(), `\"subtype\":\"stop_task\",\"task_id\":\"s1\"`)
	})
}

func TestWrongKey(t *testing.T) {
	extendTimeLimits(t)
	p := start(t, `turn
print {"type":"system","subtype":"api_retry","attempt":1,"error_status":401}
print {"type":"system","subtype":"api_retry","attempt":2,"error_status":401}
interrupted`, nil)
	require.Equal(t, 1, p.wait(t))
	require.Contains(t, p.out.all.String(), `"subtype":"gave_up"`)
}

// TestUsedUpWindow checks that a run ends when the subscription refuses requests. It must continue if the subscription pays for
// requests beyond its window.
func TestUsedUpWindow(t *testing.T) {
	extendTimeLimits(t)
	p := start(t, `turn
print {"type":"rate_limit_event","rate_limit_info":{"status":"rejected","isUsingOverage":false}}
interrupted`, nil)
	require.Equal(t, 1, p.wait(t))

	p = start(t, `turn
print {"type":"rate_limit_event","rate_limit_info":{"status":"rejected","isUsingOverage":true}}
result`, nil)
	require.Zero(t, p.wait(t))
}

// TestRequestsAreAnswered checks that every request gets an answer, because Claude Code waits for it without a limit.
func TestRequestsAreAnswered(t *testing.T) {
	withRunDir := func(j *Job) { j.RunDir = t.TempDir() } // without a supervisor, nobody can be asked
	for _, tc := range []struct{ name, request, want string }{
		{"an unknown request", `{"subtype":"dance"}`, `"error":"Fleet does not answer \"dance\""`},
		{"a permission", `{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}`, `"behavior":"deny"`},
		{"a question of a server", `{"subtype":"elicitation","message":"Who?"}`, `"action":"decline"`},
		{"tools", `{"subtype":"mcp_message","server_name":"fleet-ask","message":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}`, `ask_user`},
		{"a notification", `{"subtype":"mcp_message","server_name":"fleet-ask","message":{"jsonrpc":"2.0","method":"notifications/initialized"}}`, `"result":{}`},
		{"another server", `{"subtype":"mcp_message","server_name":"other","message":{}}`, `"subtype":"error"`},
		{"no request", `{}`, `"subtype":"error"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := start(t, `turn
print {"type":"control_request","request_id":"q1","request":`+tc.request+`}
read
result`, withRunDir)
			require.Zero(t, p.wait(t))
			var heard struct{ Type, Line string }
			for l := range strings.Lines(p.out.all.String()) {
				if strings.Contains(l, `"heard"`) {
					require.NoError(t, json.Unmarshal([]byte(l), &heard))
				}
			}
			require.Contains(t, heard.Line, `"request_id":"q1"`)
			require.Contains(t, heard.Line, tc.want)
			require.NotContains(t, p.out.all.String(), "control_request")
		})
	}
}

// FuzzLine checks that Fleet survives any line of Claude Code. It must answer only with valid JSON, and must never allow a tool.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":1}}`))
	f.Add([]byte(`{"type":"control_request","request_id":"q","request":{"subtype":"mcp_message","server_name":"fleet-ask","message":{"id":1,"method":"tools/call","params":{"name":"ask_user","arguments":{"question":"?"}}}}}`))
	f.Add([]byte(`{"type":"system","subtype":"background_tasks_changed","tasks":[{}]}`))
	f.Add([]byte(`{"type":"result","user_message_uuids":["a"]}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		written := &output{lines: make(chan string, 100)}
		c := newConversation(&Job{ID: "run", RunDir: dir}, &output{lines: make(chan string, 100)}, written, mailbox.Open(0))
		questionCtx, cancel := context.WithCancel(t.Context())
		c.handleLine(questionCtx, data)
		for len(c.questions) > 0 {
			delete(c.questions, <-c.answeredIDs)
		}
		cancel()
		waittest.Until(t, "the answers are written", func() bool {
			c.in.mu.Lock()
			defer c.in.mu.Unlock()
			return !c.in.writing
		})
		written.mu.Lock()
		defer written.mu.Unlock()
		for l := range bytes.Lines(written.all.Bytes()) {
			require.True(t, json.Valid(l), "%q", l)
			require.NotContains(t, string(l), `"behavior":"allow"`)
		}
	})
}
