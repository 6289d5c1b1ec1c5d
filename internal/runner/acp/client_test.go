package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/acp/acptest"
	"fleet/internal/runner/mailbox"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as an agent program.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "peer" {
		acptest.Peer(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// play runs a job with the prompt's lines as the script of the test program. mode selects the program's behaviour: see
// acptest.Peer. If change is not nil, it changes the job before the start. play returns the lines of the output.
func play(t *testing.T, mode string, change func(*Job), prompt ...string) (lines []Line, err error) {
	t.Helper()
	return playUntil(t.Context(), t, mode, change, nil, prompt...)
}

// playUntil works like play, but cancels the job when ctx is done. If onLine is not nil, playUntil calls it for each
// line of the output.
func playUntil(ctx context.Context, t *testing.T, mode string, change func(*Job), onLine func(Line), prompt ...string) (lines []Line, err error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	script := strings.Join(prompt, "\n")
	j := &Job{Argv: []string{self, "peer", mode}, TestedVersion: "6.0", FirstPrompt: script, Prompt: script}
	if change != nil {
		change(j)
	}
	sink := lineSink{onLine: onLine}
	err = run(ctx, j, &output{to: &sink})
	for l := range bytes.Lines(sink.all.Bytes()) {
		var line Line
		require.NoError(t, json.Unmarshal(l, &line), "%s", l)
		lines = append(lines, line)
	}
	return lines, err
}

// lineSink keeps the lines of the output, and calls onLine, which may be nil, for each.
type lineSink struct {
	all    bytes.Buffer
	onLine func(Line)
}

func (s *lineSink) Write(p []byte) (int, error) {
	var l Line
	if s.onLine != nil && json.Unmarshal(p, &l) == nil {
		s.onLine(l)
	}
	return s.all.Write(p)
}

// ofType returns the lines of the type kind.
func ofType(lines []Line, kind string) (all []Line) {
	for _, l := range lines {
		if l.Type == kind {
			all = append(all, l)
		}
	}
	return all
}

func joinText(lines []Line) string {
	var b strings.Builder
	for _, l := range ofType(lines, LineText) {
		b.WriteString(l.Text)
	}
	return b.String()
}

func TestTurn(t *testing.T) {
	defer func(d time.Duration) { joinTime = d }(joinTime)
	joinTime = waittest.Limit
	lines, err := play(t, "plain", nil, "say Hello, ", "say world.", "think Hm", "tool t1 execute go test", "done t1 ok", "cost 0.5", "say Done.")
	require.NoError(t, err)
	require.Equal(t, []Line{
		{Type: LineAgent, Name: "peer", Version: "7.0"},
		{Type: LineSession, Session: "s1"},
		{Type: LineState, State: StateRunning},
		{Type: LineText, Text: "Hello, world."},
		{Type: LineThought, Text: "Hm"},
	}, lines[:5])
	require.Len(t, ofType(lines, LineUpdate), 3)
	last := lines[len(lines)-1]
	require.Equal(t, Line{Type: LineTurn, StopReason: "end_turn", Usage: &Usage{Input: 15, CacheRead: 5, Output: 2}}, last)
}

func TestPermissions(t *testing.T) {
	lines, err := play(t, "plain", func(j *Job) { j.Policy = Policy{Allow: []string{"Bash(ls *)"}} },
		"ask t1 execute ls -l", "ask t2 execute rm -rf x", "nested t3 ls -a", "nested t4 make")
	require.NoError(t, err)
	require.Equal(t, "selected yes\nselected no\nselected yes\nselected no\n", joinText(lines))
	answers := ofType(lines, LinePermissionAnswer)
	require.Len(t, answers, 4)
	for i := range answers {
		require.NotZero(t, answers[i].At)
		answers[i].At = 0
	}
	require.Equal(t, Line{Type: LinePermissionAnswer, ID: "t1", Title: "terminal", Allowed: true, Text: "allowed by Bash(ls *)"}, answers[0])
	require.Equal(t, Line{Type: LinePermissionAnswer, ID: "t4", Title: "make", Text: "no rule allows it"}, answers[3])
	requests := ofType(lines, LinePermissionRequest)
	require.Len(t, requests, 4)
	require.Contains(t, string(requests[3].Update), `"title":"make"`)
	var states []string
	for _, l := range ofType(lines, LineState) {
		states = append(states, l.State)
	}
	require.Equal(t, []string{"running", "requires_action", "running", "requires_action", "running", "idle"}, states)
}

// TestStrangeProgram checks that the client ignores unknown and invalid updates, and refuses a request for a file.
func TestStrangeProgram(t *testing.T) {
	lines, err := play(t, "plain", nil, "weird", "read /etc/passwd", "say  Still here.")
	require.NoError(t, err)
	require.Equal(t, "read:  Still here.", strings.ReplaceAll(joinText(lines), "null", ""))
}

func TestSession(t *testing.T) {
	continueSession := func(id string) func(*Job) {
		return func(j *Job) { j.Session, j.FirstPrompt, j.Prompt = id, "say all anew", "say goes on" }
	}
	for _, mode := range []string{"load", "resume"} {
		lines, err := play(t, mode, continueSession("s1"))
		require.NoError(t, err)
		require.Equal(t, Line{Type: LineSession, Session: "s1", Resumed: true}, ofType(lines, LineSession)[0])
		require.Equal(t, "goes on", joinText(lines), "earlier output must not be repeated")

		lines, err = play(t, mode, continueSession("lost"))
		require.NoError(t, err)
		require.Equal(t, Line{Type: LineSession, Session: "s1", Text: "no such session"}, ofType(lines, LineSession)[0])
		require.Equal(t, "all anew", joinText(lines))
	}
	// If the session cannot be continued yet, the client waits.
	begun := time.Now()
	lines, err := play(t, "load", func(j *Job) {
		continueSession("s1")(j)
		j.NotBefore = begun.Add(300 * time.Millisecond)
	})
	require.NoError(t, err)
	require.True(t, ofType(lines, LineSession)[0].Resumed)
	require.GreaterOrEqual(t, time.Since(begun), 300*time.Millisecond)

	lines, err = play(t, "plain", continueSession("s1"))
	require.NoError(t, err)
	require.Equal(t, "the program cannot continue sessions", ofType(lines, LineSession)[0].Text)
	require.Equal(t, "all anew", joinText(lines))
}

// TestModel checks the choice of a model and a mode, and the errors for models, modes and MCP servers that the program
// does not support.
func TestModel(t *testing.T) {
	lines, err := play(t, "plain", func(j *Job) { j.Model = "large" }, "say \nok")
	require.NoError(t, err)
	require.Contains(t, joinText(lines), `"value":"large"`)
	_, err = play(t, "plain", func(j *Job) { j.Model = "huge" }, "say ok")
	require.ErrorContains(t, err, `7.0 has no model "huge": it has small, large`)
	_, err = play(t, "plain", func(j *Job) { j.Mode = "plan" }, "say ok")
	require.ErrorContains(t, err, `does not support choosing its mode`)
	_, err = play(t, "plain", func(j *Job) { j.Mode = AcceptEdits }, "say ok")
	require.NoError(t, err)
	_, err = play(t, "plain", func(j *Job) { j.Servers = []Server{{Name: "tracker", Type: "http", URL: "http://x"}} }, "say ok")
	require.ErrorContains(t, err, `does not support MCP servers over HTTP, such as "tracker"`)
}

func TestLogin(t *testing.T) {
	lines, err := play(t, "key", nil, "say in")
	require.NoError(t, err)
	require.Equal(t, "in", joinText(lines))
	_, err = play(t, "locked", nil, "say in")
	require.ErrorContains(t, err, "is not logged in (Authentication required)")
	require.ErrorContains(t, err, "it offers the logins A browser, A key")
}

// TestOtherProtocol checks that a program with another protocol is recognised and cannot block the run.
func TestOtherProtocol(t *testing.T) {
	defer func(d time.Duration) { startTimeout = d }(startTimeout)
	startTimeout = 200 * time.Millisecond
	_, err := play(t, "silent", nil, "say x")
	require.ErrorContains(t, err, "did not answer initialize within 200ms; Fleet was tested with 6.0")
	startTimeout = waittest.Limit
	for mode, want := range map[string]string{
		"v2":      "7.0 speaks version 2 of the Agent Client Protocol, but Fleet speaks version 1; Fleet was tested with 6.0",
		"garbage": `ended by itself before it had answered; its output was "unknown command \"acp\""; Fleet was tested with 6.0`,
		"refuse":  "refused the Agent Client Protocol, version 1: no such method; Fleet was tested with 6.0",
	} {
		_, err := play(t, mode, nil, "say x")
		require.ErrorContains(t, err, want)
	}
	_, err = play(t, "plain", func(j *Job) { j.Argv = []string{"/no/such/program"} })
	require.ErrorContains(t, err, "cannot start the program")
}

func TestFailures(t *testing.T) {
	for prompt, want := range map[string]string{
		"fail the model is overloaded": "7.0: the prompt failed: the model is overloaded",
		"die":                          "ended by itself (exit status 3) before it had answered",
		"stop max_tokens":              "reached the limit of tokens",
		"stop max_turn_requests":       "reached its limit of requests",
		"stop refusal":                 "the model refused the task",
		"stop moonrise":                `ended the turn with "moonrise", which this version of Fleet does not know; Fleet was tested with 6.0`,
	} {
		_, err := play(t, "plain", nil, "say first", prompt)
		require.ErrorContains(t, err, want)
	}
}

func TestCancel(t *testing.T) {
	defer func(d time.Duration) { cancelTimeout = d }(cancelTimeout)
	for mode, limit := range map[string]time.Duration{"plain": waittest.Limit, "deaf": 50 * time.Millisecond} {
		cancelTimeout = limit
		ctx, cancel := context.WithCancel(t.Context())
		lines, err := playUntil(ctx, t, mode, nil, func(l Line) {
			if l.Type == LineText {
				cancel()
			}
		}, "say working\n", "pause", "hang")
		require.NoError(t, err)
		last := lines[len(lines)-1]
		require.Equal(t, []string{LineTurn, "cancelled"}, []string{last.Type, last.StopReason}, mode)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // before anything has started
	_, err := playUntil(ctx, t, "silent", nil, nil, "say x")
	require.NoError(t, err)
}

func TestMessages(t *testing.T) {
	// A message that arrives after the end of the turn is refused. The test cannot observe when a message arrives, so it waits.
	waittest.WithGrowingLimit(t, 100*time.Millisecond, func(pause time.Duration) (inTime bool) {
		ours, fd, err := mailbox.Pair()
		require.NoError(t, err)
		s := mailbox.NewSender(ours, func(string) {})
		defer s.Close()
		sending, file := false, filepath.Join(t.TempDir(), "sent")
		sent, written := make(chan error, 1), make(chan error, 1)
		lines, err := playUntil(t.Context(), t, "plain", func(j *Job) { j.MessagesFD = fd }, func(l Line) {
			if l.Type == LineText && !sending {
				sending = true
				go func() { sent <- s.Send(mailbox.Message{ID: "m1", Text: "say  and\nsay  more"}) }()
				time.AfterFunc(pause, func() { written <- os.WriteFile(file, nil, 0o600) })
			}
		}, "say first", "until "+file)
		require.NoError(t, err)
		require.NoError(t, <-written)
		if <-sent != nil {
			return false
		}
		require.Equal(t, "first and more", joinText(lines))
		require.Len(t, ofType(lines, LineTurn), 2)
		return true
	})
}
