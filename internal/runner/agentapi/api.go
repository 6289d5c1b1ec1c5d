package agentapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Time limits for AgentAPI.
const (
	readTimeout = 10 * time.Second // for reading; AgentAPI may be busy with a message for some seconds
	sendTimeout = 60 * time.Second // for sending a message; AgentAPI waits up to 30 s for the agent's screen
)

// maxConversation limits each response with a conversation and each event, in bytes.
const maxConversation = 64 << 20

// AgentAPI's values for roles, statuses and types of messages.
const (
	roleUser      = "user"
	statusStable  = "stable"
	statusRunning = "running"
	typeUser      = "user"
	typeRaw       = "raw"
)

// Keys that AgentAPI passes on to the agent's terminal.
const (
	keyEscape    = "\x1b"
	keyInterrupt = "\x03"
	// keyClear erases the input: a person's draft, or text that an interrupted agent has put back there. Each of the
	// keys erases one line, or the part of a line before the cursor.
	keyClear = "\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15"
	// keyType and keyErase change the screen and change it back.
	keyType, keyErase = ".", "\x7f"
)

// unreachableError means that AgentAPI cannot be reached: a proxy or the host answered in its place.
type unreachableError struct{ status int }

func (e *unreachableError) Error() string {
	return fmt.Sprintf("the agent cannot be reached: a proxy answered with status %d instead of AgentAPI", e.status)
}

// RefusalError is AgentAPI's own error for a request.
type RefusalError struct {
	status int
	text   string
}

func (e *RefusalError) Error() string { return "AgentAPI refused the request: " + e.text }

// client calls the AgentAPI of one agent.
type client struct {
	http *http.Client
	base *url.URL
	now  func() time.Time
	skew *atomic.Int64 // how far the agent's clock was ahead of Fleet's at the last successful request, in nanoseconds
}

// client returns a client for the AgentAPI of a workspace. f.URL must not be nil.
func (runners *Runners) client(f Facts) *client {
	return &client{http: f.HTTP, base: f.URL, now: runners.config.Now, skew: &atomic.Int64{}}
}

// do sends a request and returns a successful response. The caller must close its body. do also records the clock skew.
func (c *client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		c.skew.Store(int64(ClockSkew(res, c.now())))
		return res, nil
	}
	defer drain(res.Body)
	return nil, responseError(res)
}

// responseError returns the error for an unsuccessful response.
func responseError(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if !strings.HasSuffix(kind, "json") { // a proxy's web page
		return &unreachableError{status: res.StatusCode}
	}
	var problem struct {
		Title, Detail, Message string
		Errors                 []struct{ Message string }
	}
	_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&problem)
	text := problem.Detail
	for _, e := range problem.Errors {
		text += " " + e.Message
	}
	if text = oneLine(text); text == "" {
		text = oneLine(problem.Title + problem.Message)
	}
	if problem.Title == "" && problem.Message != "" { // an error of the host's API, not of AgentAPI
		return &unreachableError{status: res.StatusCode}
	}
	return &RefusalError{status: res.StatusCode, text: text}
}

// maxErrorText limits texts of others in Fleet's error messages, in bytes.
const maxErrorText = 500

// oneLine returns the text on one line, shortened to maxErrorText bytes.
func oneLine(s string) string {
	return shorten(strings.Join(strings.Fields(s), " "), maxErrorText)
}

// shorten returns at most limit bytes of the text, followed by an ellipsis if the text is longer.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// drain reads a limited part of the rest of a response, so that its connection can be reused. It closes the body.
func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 64<<10))
	_ = body.Close()
}

// ClockSkew returns how far the clock of the server that sent the response is ahead of now. It returns 0 if the difference is
// less than 1.5 s or unknown.
func ClockSkew(res *http.Response, now time.Time) time.Duration {
	serverTime, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return 0
	}
	skew := serverTime.Add(500 * time.Millisecond).Sub(now) // the header has whole seconds
	if skew.Abs() < 1500*time.Millisecond {
		return 0
	}
	return skew
}

// get reads the JSON resource at the path, and decodes it into target.
func (c *client) get(ctx context.Context, path string, target any) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	res, err := c.do(timeoutCtx, http.MethodGet, path, nil)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(res.Body, maxConversation)).Decode(target)
		drain(res.Body)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *client) clockSkew() time.Duration { return time.Duration(c.skew.Load()) }

// agentStatus is the status of an agent as AgentAPI reports it.
type agentStatus struct {
	Status    string `json:"status"` // statusRunning or statusStable
	AgentType string `json:"agent_type"`
}

// readStatus returns statusRunning or statusStable, and the type of the agent.
func (c *client) readStatus(ctx context.Context) (status, agentType string, err error) {
	var s agentStatus
	err = c.get(ctx, "status", &s)
	return s.Status, s.AgentType, err
}

// readView reads the status and then the whole conversation. So if the status is stable, all messages are complete. If the last
// message is to the agent, it was sent after the status was read, and readView sets the status to running.
func (c *client) readView(ctx context.Context) (*view, error) {
	var v view
	var err error
	if v.status, v.agentType, err = c.readStatus(ctx); err != nil {
		return nil, err
	}
	var all struct{ Messages []message }
	if err := c.get(ctx, "messages", &all); err != nil {
		return nil, err
	}
	v.messages, v.skew = all.Messages, c.clockSkew()
	if n := len(v.messages); n > 0 && v.messages[n-1].Role == roleUser {
		v.status = statusRunning
	}
	return &v, nil
}

// send sends the agent a message, or keys to its terminal.
func (c *client) send(ctx context.Context, kind, content string) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	res, err := c.do(timeoutCtx, http.MethodPost, "message", map[string]string{"type": kind, "content": content})
	if err == nil {
		drain(res.Body)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
