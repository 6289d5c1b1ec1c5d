package mcp_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

func TestStdioAnswersAllRequests(t *testing.T) {
	t.Parallel()
	out, err := runStdio(t, newStub(), strings.Join([]string{
		initialize,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		"",
		`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`,
		call(1, "show_agent", `{"agent_name":"papi"}`, ""),
		call(2, "show_agent", `{"agent_name":"x"}`, ""), // without a line end
	}, "\n"))
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(out, "\n"))
	require.Contains(t, out, `"protocolVersion":"2025-11-25"`)
	require.Contains(t, out, `"create_agent"`)
	require.Contains(t, out, `AGENT_NOT_FOUND`)
}

func TestStdioReportsInvalidInput(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{`:                                "-32700",
		"{\"a\":\"\xff\"}":                 "not valid UTF-8",
		strings.Repeat("[", 1000):          "nested deeper",
		`[]`:                               "batches are not supported",
		`{"jsonrpc":"1.0","id":1}`:         "Invalid JSON-RPC version",
		strings.Repeat("x", 17<<20):        "too large",
		`{"jsonrpc":"2.0","id":5,"x":[1]}`: `"id":5`,
	} {
		out, err := runStdio(t, newStub(), in+"\n"+call("next", "show_agent", `{"agent_name":"papi"}`, "")+"\n")
		require.NoError(t, err)
		require.Contains(t, out, want)
		require.Contains(t, out, `"structuredContent"`, "the server must continue after the error")
	}
}

func TestStdioRefusesDuplicateID(t *testing.T) {
	t.Parallel()
	s := newStub()
	out, err := runStdio(t, s, call(1, "restart_agent", `{"agent_name":"papi"}`, "")+"\n"+call(1, "show_agent", `{"agent_name":"papi"}`, "")+"\n"+cancelOne)
	require.NoError(t, err)
	require.Contains(t, out, "give each request its own id")
}

func TestStdioEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newStub()
	in, write := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- mcp.Stdio(ctx, connTo(s), mcp.Config{}, in, io.Discard) }()
	_, err := io.WriteString(write, call(1, "restart_agent", `{"agent_name":"papi"}`, "t")+"\n")
	require.NoError(t, err)
	<-s.started
	cancel(errors.New("a signal"))
	require.NoError(t, <-done)
	require.Error(t, <-s.ended)
	require.NoError(t, write.Close()) // ends the pending read
}

func TestStdioEndsWhenOutputIsClosed(t *testing.T) {
	t.Parallel()
	s := newStub()
	in, write := io.Pipe()
	read, out := io.Pipe()
	require.NoError(t, read.Close())
	done := make(chan error, 1)
	go func() { done <- mcp.Stdio(t.Context(), connTo(s), mcp.Config{}, in, out) }()
	_, err := io.WriteString(write, call(1, "restart_agent", `{"agent_name":"papi"}`, "")+"\n")
	require.NoError(t, err)
	<-s.started
	_, err = io.WriteString(write, call(2, "show_agent", `{"agent_name":"papi"}`, "")+"\n")
	require.NoError(t, err)
	require.ErrorIs(t, <-done, io.ErrClosedPipe)
	require.Error(t, <-s.ended, "open calls must be cancelled")
	require.NoError(t, write.Close())
}

func TestStdioReportsUnsupportedRequests(t *testing.T) {
	t.Parallel()
	err := mcp.Stdio(t.Context(), connTo(newStub()), mcp.Config{Toolset: "nix"}, strings.NewReader(""), io.Discard)
	require.ErrorContains(t, err, `there is no toolset "nix"; the toolsets are all, fleet`)
	err = mcp.Stdio(t.Context(), connTo(newStub()), mcp.Config{}, failingReader{}, io.Discard)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
