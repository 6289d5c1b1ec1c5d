//go:build cgo

package cagent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/model/provider"
)

// prefix precedes the scheme in the URLs of models. All clients of the library use http.DefaultTransport and cannot be
// given another one. The special scheme sends their requests, and no others, through modelTransport.
const prefix = "fleet-"

// registerSchemes registers the schemes, once per process.
var registerSchemes = sync.OnceFunc(func() {
	t := http.DefaultTransport.(*http.Transport)
	t.RegisterProtocol(prefix+"http", modelTransport{t})
	t.RegisterProtocol(prefix+"https", modelTransport{t})
})

// bases are the default URLs of providers that the library knows, with the variable that overrides each.
var bases = map[string]struct{ variable, address string }{
	"anthropic": {"ANTHROPIC_BASE_URL", "https://api.anthropic.com/"},
	"openai":    {"OPENAI_BASE_URL", "https://api.openai.com/v1"},
	"google":    {"GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com/"},
}

// routeThroughTransport gives the model a URL that leads through modelTransport, if its client supports that.
func (e *engine) routeThroughTransport(m *latest.ModelConfig, custom map[string]latest.ProviderConfig) {
	known := bases[m.Provider]
	set, _ := e.config.LookupEnv(known.variable)
	address := cmp.Or(m.BaseURL, custom[m.Provider].BaseURL, provider.Aliases[m.Provider].BaseURL, set, known.address)
	vertex := m.Provider == "google" && (m.ProviderOpts["project"] != nil || m.ProviderOpts["location"] != nil)
	if !vertex && (strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")) {
		m.BaseURL = prefix + address
	}
}

// withoutPrefix removes the prefix from URLs in a text.
func withoutPrefix(text string) string { return strings.ReplaceAll(text, prefix+"http", "http") }

// exchange is one request to a model, as modelTransport sees it.
type exchange struct {
	change changes
	told   func() // called when the usage changes; nil: not called

	mu    sync.Mutex
	err   error   // a precise error of the request; nil: none known
	usage *tokens // the usage in the answer, of which the library does not read all
}

type exchangeKey struct{}

// fail records an error. The one of the last attempt counts.
func (x *exchange) fail(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
	return err
}

func (x *exchange) state() (usage *tokens, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.usage, x.err
}

// changes are modifications of a request's body.
type changes struct {
	Set  map[string]any `json:"set"`
	Drop []string       `json:"drop"`
}

// changesOf removes the changes from the model's options (provider_opts.request) and returns them.
func changesOf(m *latest.ModelConfig) (c changes, err error) {
	opts, ok := m.ProviderOpts["request"]
	if !ok {
		return c, nil
	}
	m.ProviderOpts = maps.Clone(m.ProviderOpts)
	delete(m.ProviderOpts, "request")
	raw, err := json.Marshal(opts)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}

// apply modifies the request's body if it is a JSON object.
func (c changes) apply(r *http.Request) error {
	if r.Body == nil || len(c.Set)+len(c.Drop) == 0 {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return err
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(raw, &body) == nil && body != nil {
		for _, key := range c.Drop {
			delete(body, key)
		}
		for key, v := range c.Set {
			if body[key], err = json.Marshal(v); err != nil {
				return err
			}
		}
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	return nil
}

// modelTransport is a transport between the clients of models and the network. It does not follow redirects, because requests
// hold keys, and returns precise errors.
type modelTransport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w modelTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	r := q.Clone(q.Context())
	r.URL.Scheme = strings.TrimPrefix(r.URL.Scheme, prefix)
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		x = &exchange{}
	}
	if err := x.change.apply(r); err != nil {
		return nil, err
	}
	_ = x.fail(nil)
	res, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, x.fail(networkError(r, err))
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	page := kind == "text/html" || kind == "application/xhtml+xml"
	host := r.URL.Host
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		where := "elsewhere"
		if to, err := res.Location(); err == nil {
			where = "to " + to.Host
		}
		return refused(res, http.StatusBadRequest, x.fail(fmt.Errorf("%s redirects %s (HTTP %d), which is not followed because it would get the key: set base_url to the address of the API", host, where, res.StatusCode))), nil
	case page && res.StatusCode < 300:
		return refused(res, http.StatusBadRequest, x.fail(fmt.Errorf("%s answered with a web page (HTTP %d) and not as a model API: check base_url", host, res.StatusCode))), nil
	case page:
		return refused(res, res.StatusCode, x.fail(fmt.Errorf("%s answered HTTP %d with a web page instead of an API error", host, res.StatusCode))), nil
	case res.StatusCode < 300:
		res.Body = &answer{ReadCloser: res.Body, from: r, exchange: x, stream: kind == "text/event-stream"}
	}
	return res, nil
}

// refused returns a response that clients understand as an API error, instead of one that they would misinterpret.
func refused(res *http.Response, status int, why error) *http.Response {
	_ = res.Body.Close()
	body, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": "api_error", "message": why.Error()}}) // texts can always be encoded
	out := *res
	out.StatusCode, out.Status = status, fmt.Sprintf("%d %s", status, http.StatusText(status))
	out.Header = res.Header.Clone()
	out.Header.Set("Content-Type", "application/json")
	for _, name := range []string{"Location", "Content-Encoding", "Content-Length"} {
		out.Header.Del(name)
	}
	if status == http.StatusBadRequest {
		out.Header.Set("X-Should-Retry", "false")
	}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return &out
}

// networkError describes a network error.
func networkError(r *http.Request, err error) error {
	host := r.URL.Host
	dns, isDNS := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case r.Context().Err() != nil:
		return err
	case isDNS && dns.IsNotFound:
		return fmt.Errorf("unknown host %s: check base_url", dns.Name)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%s reset the connection", host)
	case isOp && op.Op == "dial":
		return fmt.Errorf("cannot reach %s: %w", host, op.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s closed the connection without an answer", host)
	}
	return fmt.Errorf("the request to %s failed: %w", host, err)
}

// answer is the body of a model's answer. It checks that a stream is complete.
type answer struct {
	io.ReadCloser
	from     *http.Request
	exchange *exchange
	stream   bool

	line  []byte // the start of an incomplete event
	began bool
	ended bool
}

// maxEvent limits the size of an event that is parsed.
const maxEvent = 1 << 20

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.stream {
		a.readAlong(p[:n])
	}
	switch {
	case err == nil, a.from.Context().Err() != nil:
	case errors.Is(err, syscall.ECONNRESET):
		err = a.exchange.fail(fmt.Errorf("%s reset the connection in the middle of the answer", a.from.URL.Host))
	case !errors.Is(err, io.EOF), a.stream && a.began && !a.ended:
		err = a.exchange.fail(fmt.Errorf("the answer of %s is incomplete: the stream ended early", a.from.URL.Host))
	case a.stream && !a.began:
		err = a.exchange.fail(fmt.Errorf("%s answered with an empty stream", a.from.URL.Host))
	}
	return n, err
}

func (a *answer) readAlong(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if len(a.line) < maxEvent {
				a.line = append(a.line, p...)
			}
			return
		}
		line := p[:i]
		if len(a.line) > 0 {
			line = append(a.line, line...)
			a.line = a.line[:0]
		}
		if data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r"), []byte("data:")); ok {
			a.event(bytes.TrimSpace(data))
		}
		p = p[i+1:]
	}
}

// messagesUsage is the usage in the Messages API. Fields that are absent keep their previous value.
type messagesUsage struct {
	Input   *int64 `json:"input_tokens"`
	Output  *int64 `json:"output_tokens"`
	Cached  *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
}

// event handles the data of one event of any API.
func (a *answer) event(data []byte) {
	if len(data) == 0 {
		return
	}
	a.began = true
	var e struct {
		Type    string `json:"type"`
		Error   any    `json:"error"`
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Candidates []struct {
			FinishReason string `json:"finishReason"`
		} `json:"candidates"`
		PromptFeedback any `json:"promptFeedback"` // instead of candidates
		Message        struct {
			Usage messagesUsage `json:"usage"`
		} `json:"message"`
		Usage messagesUsage `json:"usage"`
	}
	if string(data) == "[DONE]" {
		a.ended = true
		return
	}
	if json.Unmarshal(data, &e) != nil {
		return // the client reports it
	}
	switch e.Type {
	case "message_start":
		a.exchange.count(e.Message.Usage)
	case "message_delta":
		a.exchange.count(e.Usage)
	case "message_stop", "response.completed", "response.incomplete", "response.failed", "response.done", "error":
		a.ended = true
	}
	for _, c := range e.Choices {
		a.ended = a.ended || c.FinishReason != ""
	}
	for _, c := range e.Candidates {
		a.ended = a.ended || c.FinishReason != ""
	}
	a.ended = a.ended || e.Error != nil || e.PromptFeedback != nil && len(e.Candidates) == 0
}

// count updates the usage. The figures are totals of the answer, and never decrease.
func (x *exchange) count(u messagesUsage) {
	defer func() {
		if x.told != nil {
			x.told()
		}
	}()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.usage == nil {
		x.usage = &tokens{}
	}
	for _, f := range []struct{ to, said *int64 }{
		{&x.usage.input, u.Input}, {&x.usage.output, u.Output}, {&x.usage.cached, u.Cached}, {&x.usage.written, u.Written},
	} {
		if f.said != nil {
			*f.to = max(*f.to, *f.said)
		}
	}
}

// withExchange adds the exchange to the context of a request.
func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}
