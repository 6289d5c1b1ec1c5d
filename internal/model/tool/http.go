//go:build cgo

package tool

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
	"fleet/internal/model/dial"
)

// HTTPHandler returns a handler that sends the arguments of the call to the URL, by POST unless the tool names another method. The
// result is the body of the answer, and it is an error if the status is 300 or more. If the body is longer than limit bytes, only
// its first limit+1 bytes are used. The host must be public, or listed in allowedHosts.
func HTTPHandler(t *fleet.HTTPTool, headers map[string]string, limit int, allowedHosts ...string) tools.ToolHandler {
	method := cmp.Or(t.Method, http.MethodPost)
	base := dial.PublicTransport(allowedHosts...)
	base.DisableKeepAlives = true
	client := &http.Client{
		Transport:     base,
		CheckRedirect: refuseRedirects,
	}
	return func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
		q, err := http.NewRequestWithContext(ctx, method, t.URL, strings.NewReader(c.Function.Arguments))
		if err != nil {
			return nil, err
		}
		q.Header.Set("Content-Type", "application/json")
		for k, v := range headers {
			q.Header.Set(k, v)
		}
		res, err := client.Do(q)
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= http.StatusMultipleChoices {
			return tools.ResultError(fmt.Sprintf("The endpoint answered %s: %s", res.Status, body)), nil
		}
		return tools.ResultSuccess(string(body)), nil
	}
}

// refuseRedirects makes a client return a redirect instead of following it, because the headers may hold secrets for the first
// server.
func refuseRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
