package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
)

// httpClient is a minimal client with one connection. All rows share the cost of the client, so an http.Client would
// hide their differences.
type httpClient struct {
	conn net.Conn
	in   *bufio.Reader
}

// head is an answer without its body.
type head struct {
	status int
	header http.Header
}

// do sends the request and returns the answer, with the complete body in into.
func (c *httpClient) do(request string, into io.Writer) (answer head, err error) {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return answer, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return answer, err
	}
	_, err = io.Copy(into, r.Body)
	return head{r.StatusCode, r.Header}, errors.Join(err, r.Body.Close())
}

// request returns a request as it is sent: a POST if it has a body. headers are names and values.
func request(path, body string, headers ...string) string {
	method, accept := http.MethodGet, "application/json"
	if body != "" {
		method, accept = http.MethodPost, "application/json, text/event-stream"
	}
	q := must(http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))) //nolint:noctx // only its text is sent
	headers = append(headers, "Accept", accept, "Content-Type", "application/json", "Mcp-Protocol-Version", "2025-11-25")
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	var b bytes.Buffer
	check(q.Write(&b))
	return b.String()
}

// overHTTP returns a call that sends a request on the client's own connection, until the context is done. begin returns the
// request of a connection. If want is given, the answer is compared with it once.
func overHTTP(ctx context.Context, clients int, addr string, begin func(*httpClient) string, want []byte) func(int) error {
	conns, requests := make([]*httpClient, clients), make([]string, clients)
	for i := range conns {
		c := must((&net.Dialer{}).DialContext(ctx, "tcp", addr))
		context.AfterFunc(ctx, func() { _ = c.Close() })
		conns[i] = &httpClient{conn: c, in: bufio.NewReaderSize(c, 64<<10)}
		requests[i] = begin(conns[i])
	}
	if want != nil {
		var body bytes.Buffer
		must(conns[0].do(requests[0], &body))
		check(same(body.Bytes(), want))
	}
	return func(client int) error {
		r, err := conns[client].do(requests[client], io.Discard)
		if err == nil && r.status != http.StatusOK && r.status != http.StatusNotModified {
			err = fmt.Errorf("%s answers %d", addr, r.status)
		}
		return err
	}
}

// plainly begins with nothing but the request.
func plainly(request string) func(*httpClient) string {
	return func(*httpClient) string { return request }
}

var times = regexp.MustCompile(`"observed_at":"[^"]*"`)

// same returns an error unless the answer is the list, or a tool result with the list as text and as structured content.
// The times of the last poll may differ.
func same(got, list []byte) error {
	var m struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal(got, &m); err != nil {
		return err
	}
	parts := [][]byte{bytes.TrimSpace(got)}
	if len(m.Result.Content) == 1 {
		parts = [][]byte{[]byte(m.Result.Content[0].Text), m.Result.StructuredContent}
	}
	for _, part := range parts {
		if a, b := times.ReplaceAll(part, nil), times.ReplaceAll(list, nil); !bytes.Equal(a, b) {
			return fmt.Errorf("the servers answer differently: %.300s and %.300s", a, b)
		}
	}
	return nil
}
