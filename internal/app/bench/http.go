package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// httpClient is a minimal client with one connection. All rows share the cost of the client, so an http.Client would
// hide their differences.
type httpClient struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

func dialHTTP(addr string) (*httpClient, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &httpClient{addr: addr, conn: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

// do sends the request and returns the answer, with the complete body in into.
func (c *httpClient) do(request string, into io.Writer) (status int, header http.Header, err error) {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return 0, nil, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	_, err = io.Copy(into, r.Body)
	return r.StatusCode, r.Header, errors.Join(err, r.Body.Close())
}

func get(path string, header ...string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n%s\r\n", path, lines(header))
}

func post(path, body string, header ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"+
		"Mcp-Protocol-Version: 2025-11-25\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), lines(header), body)
}

func lines(header []string) string {
	var b strings.Builder
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	return b.String()
}
