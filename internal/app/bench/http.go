package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// httpClient is a minimal client with one connection. The cost of the client is part of every row, so the cost of an
// http.Client would hide the differences between the rows.
type httpClient struct {
	conn net.Conn
	in   *bufio.Reader
}

// do sends the request, writes the answer's body to into, and returns its header.
func (c *httpClient) do(request string, into io.Writer) (http.Header, error) {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(into, r.Body)
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusNotModified {
		err = fmt.Errorf("%s answers %s", c.conn.RemoteAddr(), r.Status)
	}
	return r.Header, errors.Join(err, r.Body.Close())
}

// request returns the text of a request: a POST if body is not empty, else a GET. headers are names and values in turn.
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

// overHTTP returns a function that sends a request on the connection of the client with the number. The connections are
// open until the context is done. begin returns the request for a connection. overHTTP sends the first request itself,
// and panics if the answer has fewer agents than expected.
func overHTTP(ctx context.Context, clients int, addr string, begin func(*httpClient) string, agents int) func(int) error {
	conns, requests := make([]*httpClient, clients), make([]string, clients)
	for i := range conns {
		c := must((&net.Dialer{}).DialContext(ctx, "tcp", addr))
		context.AfterFunc(ctx, func() { _ = c.Close() })
		conns[i] = &httpClient{conn: c, in: bufio.NewReaderSize(c, 64<<10)}
		requests[i] = begin(conns[i])
	}
	var body bytes.Buffer
	must(conns[0].do(requests[0], &body))
	if n := bytes.Count(body.Bytes(), []byte("current_task_id")); n < agents {
		check(fmt.Errorf("%s answers with %d agents, expected %d: %.300s", addr, n, agents, body.Bytes()))
	}
	return func(client int) error {
		_, err := conns[client].do(requests[client], io.Discard)
		return err
	}
}
