//go:build cgo

package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/model/provider"
)

// schemePrefix precedes the scheme in the URLs of models. All clients of the library use http.DefaultTransport, and cannot be
// given another transport. Because of the special scheme, modelTransport handles their requests, and no others.
const schemePrefix = "fleet-"

// registerSchemes registers modelTransport for the special schemes, once per process.
var registerSchemes = sync.OnceFunc(func() {
	t := http.DefaultTransport.(*http.Transport)
	t.RegisterProtocol(schemePrefix+"http", modelTransport{t})
	t.RegisterProtocol(schemePrefix+"https", modelTransport{t})
})

// defaultURLs are the default URLs of the providers that the library implements, and the variables that override them.
var defaultURLs = map[string]struct{ variable, address string }{
	"anthropic": {"ANTHROPIC_BASE_URL", "https://api.anthropic.com/"},
	"openai":    {"OPENAI_BASE_URL", "https://api.openai.com/v1"},
	"google":    {"GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com/"},
}

// routeThroughTransport sets a URL with the special scheme as the model's base URL. It leaves a model of Vertex AI
// unchanged, since its client does not support that.
func routeThroughTransport(m *latest.ModelConfig, custom map[string]latest.ProviderConfig) {
	known := defaultURLs[m.Provider]
	fromEnv, _ := os.LookupEnv(known.variable)
	address := cmp.Or(m.BaseURL, custom[m.Provider].BaseURL, provider.Aliases[m.Provider].BaseURL, fromEnv, known.address)
	isVertex := m.Provider == "google" && (m.ProviderOpts["project"] != nil || m.ProviderOpts["location"] != nil)
	if !isVertex && (strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")) {
		m.BaseURL = schemePrefix + address
	}
}

// withoutPrefix returns the text with the prefix removed from all URLs in it.
func withoutPrefix(text string) string { return strings.ReplaceAll(text, schemePrefix+"http", "http") }

// modelTransport is the transport between the clients of models and the network. It applies the edits of the exchange and
// returns precise errors. It does not let clients follow redirects, because requests hold keys.
type modelTransport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m modelTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	r := q.Clone(q.Context())
	r.URL.Scheme = strings.TrimPrefix(r.URL.Scheme, schemePrefix)
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		x = &exchange{}
	}
	if err := x.edits.apply(r); err != nil {
		return nil, err
	}
	_ = x.setError(nil)
	res, err := m.base.RoundTrip(r)
	if err != nil {
		return nil, x.setError(networkError(r, err))
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	isPage := kind == "text/html" || kind == "application/xhtml+xml"
	host := r.URL.Host
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		where := "elsewhere"
		if to, err := res.Location(); err == nil {
			where = "to " + to.Host
		}
		return apiErrorResponse(res, http.StatusBadRequest, x.setError(fmt.Errorf("%s redirects %s (HTTP %d), which is not followed because it would get the key: set base_url to the address of the API", host, where, res.StatusCode))), nil
	case isPage && res.StatusCode < 300:
		return apiErrorResponse(res, http.StatusBadRequest, x.setError(fmt.Errorf("%s answered with a web page (HTTP %d) and not as a model API: check base_url", host, res.StatusCode))), nil
	case isPage:
		return apiErrorResponse(res, res.StatusCode, x.setError(fmt.Errorf("%s answered HTTP %d with a web page instead of an API error", host, res.StatusCode))), nil
	case res.StatusCode < 300:
		res.Body = &answerBody{ReadCloser: res.Body, request: r, exchange: x, isStream: kind == "text/event-stream"}
	}
	return res, nil
}

// apiErrorResponse returns an API error whose message is the text of why, in place of a response that clients would
// misinterpret. It closes the body of res. If the status is 400, clients do not retry the request.
func apiErrorResponse(res *http.Response, status int, why error) *http.Response {
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

// networkError returns a readable error for a request that failed in the network.
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
