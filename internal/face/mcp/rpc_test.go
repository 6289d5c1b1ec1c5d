package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rpcResponse is the response to a message.
type rpcResponse struct {
	status   int
	header   http.Header
	body     string
	progress []progress
	ID       any             `json:"id"`
	Result   json.RawMessage `json:"result"`
	Error    *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

type progress struct {
	Method string `json:"method"`
	Params struct {
		Token    any     `json:"progressToken"`
		Progress float64 `json:"progress"`
		Message  string  `json:"message"`
	} `json:"params"`
}

// result is the result of a tool call.
type result struct {
	IsError           bool            `json:"isError"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	Content           []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

func (a rpcResponse) result(t *testing.T) result {
	t.Helper()
	require.NotNil(t, a.Result, a.body)
	var r result
	require.NoError(t, json.Unmarshal(a.Result, &r))
	return r
}

// post sends a message. headers alternates names and values.
func post(t *testing.T, url, message string, headers ...string) rpcResponse {
	t.Helper()
	a, err := tryPost(t.Context(), url, message, headers...)
	require.NoError(t, err)
	return a
}

func tryPost(ctx context.Context, url, message string, headers ...string) (rpcResponse, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		return rpcResponse{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return rpcResponse{}, err
	}
	defer resp.Body.Close()
	a := rpcResponse{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		b, err := io.ReadAll(resp.Body)
		a.body = string(b)
		_ = json.Unmarshal(b, &a) // not every refusal is JSON-RPC
		return a, err
	}
	err = a.readEvents(resp.Body)
	return a, err
}

// readEvents reads an event stream: progress, with the response as the last event.
func (a *rpcResponse) readEvents(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if err := a.readMessage(data); err != nil {
			return err
		}
	}
	return lines.Err()
}

// readMessage reads one message of a server.
func (a *rpcResponse) readMessage(data string) error {
	if a.Result != nil || a.Error != nil {
		return fmt.Errorf("a message after the response: %s", data)
	}
	var p progress
	if err := json.Unmarshal([]byte(data), &p); err != nil {
		return err
	}
	if p.Method == "notifications/progress" {
		a.progress = append(a.progress, p)
		return nil
	}
	a.body += data
	return json.Unmarshal([]byte(data), a)
}

// call returns the message that calls a tool. If token is not empty, the message requests progress.
func call(id any, tool, arguments, token string) string {
	meta := ""
	if token != "" {
		meta = fmt.Sprintf(`,"_meta":{"progressToken":%q}`, token)
	}
	rawID, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, rawID, tool, arguments, meta)
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// modernParams are request parameters that select a protocol revision without sessions, and request progress.
const modernParams = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}`
