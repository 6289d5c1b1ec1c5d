package question

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// startSupervisor answers the questions of a run with the function answer. It does not write an answer with an empty status.
// verbs receives the verb of each line that the run writes to the pipe.
func startSupervisor(t *testing.T, answer func(Question) Answer) (runDir string, verbs <-chan string) {
	t.Helper()
	runDir = t.TempDir()
	for _, dir := range []string{AsksDir, AnswersDir} {
		require.NoError(t, os.Mkdir(filepath.Join(runDir, dir), 0o700))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(runDir, Pipe), 0o600))
	pipe, err := os.OpenFile(filepath.Join(runDir, Pipe), os.O_RDWR|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pipe.Close() })
	received := make(chan string, 100)
	go func() {
		for in := bufio.NewScanner(pipe); in.Scan(); {
			verb, name, _ := strings.Cut(in.Text(), " ")
			if verb == VerbAsk {
				var q Question
				b, _ := os.ReadFile(filepath.Join(runDir, AsksDir, name+".json"))
				_ = json.Unmarshal(b, &q)
				if a := answer(q); a.Status != "" {
					b, _ = json.Marshal(a)
					_ = os.WriteFile(filepath.Join(runDir, name), b, 0o600)
					_ = os.Rename(filepath.Join(runDir, name), filepath.Join(runDir, AnswersDir, name))
				}
			}
			received <- verb
		}
	}()
	return runDir, received
}

// client is an MCP client of a server that runVerb runs.
type client struct {
	t        *testing.T
	in       io.WriteCloser
	out      *bufio.Scanner
	exitCode chan int
}

// connect starts runVerb with the arguments, and returns a client that is connected to it.
func connect(t *testing.T, args ...string) *client {
	t.Helper()
	toServer, in := io.Pipe()
	fromServer, out := io.Pipe()
	c := &client{t: t, in: in, out: bufio.NewScanner(fromServer), exitCode: make(chan int, 1)}
	go func() {
		c.exitCode <- runVerb(t.Context(), args, toServer, out, io.Discard)
		_ = out.Close()
	}()
	return c
}

func (c *client) send(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, line+"\n")
	require.NoError(c.t, err)
}

func (c *client) receive() string {
	c.t.Helper()
	require.True(c.t, c.out.Scan())
	return c.out.Text()
}

// call calls a tool. It returns the text of the result, and whether the result is an error.
func (c *client) call(tool, arguments string) (string, bool) {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
	var r struct {
		ID     int `json:"id"`
		Result struct {
			Content []struct{ Type, Text string }
			IsError bool
		}
	}
	require.NoError(c.t, json.Unmarshal([]byte(c.receive()), &r))
	require.Equal(c.t, 7, r.ID)
	require.Len(c.t, r.Result.Content, 1)
	return r.Result.Content[0].Text, r.Result.IsError
}

// decide answers the questions of the tests.
func decide(q Question) Answer {
	switch {
	case q.Tool == "Bash":
		return Answer{Status: Answered, Answer: Allow, By: "alice"}
	case q.Tool == "Write":
		return Answer{Status: Answered, Answer: Deny, By: "alice"}
	case q.Kind == KindPermission, q.Text == "Late?":
		return Answer{Status: Expired}
	case q.Text == "Too many?":
		return Answer{Status: Refused, Message: "20 questions wait for an answer already"}
	}
	return Answer{Status: Answered, Answer: strings.Join(q.Options, " or "), Message: "as you like"}
}

func TestServer(t *testing.T) {
	t.Parallel()
	runDir, _ := startSupervisor(t, decide)
	c := connect(t, runDir, "mcp")
	c.send("no JSON")
	c.send(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2024-11-05"}}`)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"a","result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"fleet-ask","version":"1"}}}`, c.receive())
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"resources/list"}`)
	require.Contains(t, c.receive(), `"code":-32601`)
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	tools := c.receive()
	require.Contains(t, tools, `"name":"ask_user"`)
	for arguments, want := range map[string]string{
		`{"question":"Which?","options":["tabs","spaces"]}`: "tabs or spaces\nas you like",
		`{"question":"Late?"}`:                              "Nobody answered in time. Decide yourself, or end your task and say what you need to know.",
		`{"question":"Too many?"}`:                          "20 questions wait for an answer already",
		`{"question":" "}`:                                  "question must be a text, and options a list of texts",
	} {
		text, isError := c.call("ask_user", arguments)
		require.Equal(t, want, text)
		require.Equal(t, strings.Contains(want, "questions wait") || strings.Contains(want, "must be"), isError)
	}
	text, isError := c.call("sing", "{}")
	require.Equal(t, "there is no such tool", text)
	require.True(t, isError)
	require.NoError(t, c.in.Close())
	require.Zero(t, <-c.exitCode)
	entries, err := os.ReadDir(filepath.Join(runDir, AsksDir))
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the pipe must be left")
}

// TestRequestPermission checks the answers to requests for permission of Claude Code.
func TestRequestPermission(t *testing.T) {
	t.Parallel()
	runDir, _ := startSupervisor(t, decide)
	for _, tc := range []struct{ tool, input, want string }{
		{"Bash", `{"command":"make"}`, `{"behavior":"allow"}`},
		{"Write", `{}`, `{"behavior":"deny","message":"denied by alice"}`},
		{"Edit", `{}`, `{"behavior":"deny","message":"nobody answered in time"}`},
		{"", `{}`, `{"behavior":"deny","message":"the request for permission was not understood"}`},
		{
			"AskUserQuestion", `{"questions":[{"question":"Colour?","options":[{"label":"red"}]}],"more":1}`,
			`{"behavior":"allow","updatedInput":{"questions":[{"question":"Colour?","options":[{"label":"red"}]}],"more":1,"answers":{"Colour?":"red\nas you like"}}}`,
		},
		{
			"AskUserQuestion", `{"questions":[{"question":"Late?"}]}`,
			`{"behavior":"deny","message":"nobody answered in time: decide yourself, or end your task and say what you need to know"}`,
		},
	} {
		require.JSONEq(t, tc.want, string(RequestPermission(t.Context(), runDir, tc.tool, json.RawMessage(tc.input), nil)), tc.input)
	}
}

// TestServerWithdraws checks that the server withdraws a question if the client cancels the call or disconnects.
func TestServerWithdraws(t *testing.T) {
	t.Parallel()
	runDir, verbs := startSupervisor(t, func(Question) Answer { return Answer{} })
	c := connect(t, runDir, "mcp")
	for _, end := range []func(){
		func() {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
		},
		func() { require.NoError(t, c.in.Close()) },
	} {
		c.send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ask_user","arguments":{"question":"?"}}}`)
		require.Equal(t, VerbAsk, <-verbs)
		end()
		require.Equal(t, VerbDrop, <-verbs)
	}
	require.Zero(t, <-c.exitCode)
}

// TestVerbs checks that the verbs print the answer and the message of the person.
func TestVerbs(t *testing.T) {
	t.Parallel()
	runDir, _ := startSupervisor(t, func(q Question) Answer {
		if q.Kind == KindText {
			return Answer{Status: Answered, Answer: "tabs", Message: "but not in YAML"}
		}
		return Answer{Status: Answered, Answer: Allow, Message: "once"}
	})
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"question", "Tabs?"}, "tabs\nbut not in YAML\n"}, {[]string{"permission", "Bash"}, "allow\nonce\n"}} {
		var out strings.Builder
		require.Zero(t, runVerb(t.Context(), append([]string{runDir}, c.args...), strings.NewReader(""), &out, io.Discard))
		require.Equal(t, c.want, out.String())
	}
}
