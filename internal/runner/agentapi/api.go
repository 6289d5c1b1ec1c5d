package agentapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// How long AgentAPI may take.
const (
	readTime = 10 * time.Second // to tell something; it may be at taking a message, which takes seconds
	sendTime = 60 * time.Second // to take a message: it waits up to 30 s for the agent to show it, and begin
)

// maxConversation is the longest conversation that is read, in bytes.
const maxConversation = 64 << 20

// Roles of messages, statuses and types of messages, as AgentAPI calls them.
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
	// keyClear erases what stands in the input line: a person's draft, or what an interrupted agent has put back there.
	// One takes a line or its beginning.
	keyClear = "\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15\x15"
	// keyType and keyErase change the screen, and change it back.
	keyType, keyErase = ".", "\x7f"
)

// message is one message of a conversation with an agent. Those of the agent are what its screen shows, and the last
// one changes as long as that does.
type message struct {
	ID      int       `json:"id"`
	Role    string    `json:"role"`
	Content string    `json:"content"`
	Time    time.Time `json:"time"`
}

// view is a conversation at a moment.
type view struct {
	status    string
	agentType string
	messages  []message
	skew      time.Duration // how far the agent's clock is ahead of Fleet's; 0 when it is about the same
}

// unreachableError says that the host has no way to AgentAPI: the workspace, its agent or AgentAPI itself is down.
type unreachableError struct{ status int }

func (e *unreachableError) Error() string {
	return fmt.Sprintf("the agent cannot be reached: the way to its AgentAPI answers with status %d", e.status)
}

// RefusalError is what AgentAPI itself says against a request.
type RefusalError struct {
	status int
	words  string
}

func (e *RefusalError) Error() string { return "AgentAPI refused: " + e.words }

// busy says that AgentAPI refused a message because the agent works, or its screen has changed just now.
func (e *RefusalError) busy() bool { return strings.Contains(e.words, "waiting for user input") }

// client speaks to the AgentAPI of one agent.
type client struct {
	http *http.Client
	base *url.URL
	now  func() time.Time
	skew *atomic.Int64 // nanoseconds
}

// client returns the AgentAPI of a workspace that has one.
func (all *Runners) client(f Facts) *client {
	return &client{http: f.HTTP, base: f.URL, now: all.config.Now, skew: &atomic.Int64{}}
}

// do sends a request, and returns the answer if it is a good one. The caller closes its body.
func (x *client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, x.base.JoinPath(path).String(), reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := x.http.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		x.skew.Store(int64(ClockSkew(res, x.now())))
		return res, nil
	}
	defer drain(res.Body)
	return nil, refused(res)
}

// refused is the error of an answer that is none.
func refused(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if !strings.HasSuffix(kind, "json") { // a page of a proxy
		return &unreachableError{status: res.StatusCode}
	}
	var said struct {
		Title, Detail, Message string
		Errors                 []struct{ Message string }
	}
	_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&said)
	words := said.Detail
	for _, e := range said.Errors {
		words += " " + e.Message
	}
	if words = plain(words); words == "" {
		words = plain(said.Title + said.Message)
	}
	if said.Title == "" && said.Message != "" { // of the host's API, not AgentAPI
		return &unreachableError{status: res.StatusCode}
	}
	return &RefusalError{status: res.StatusCode, words: words}
}

// maxWords is the longest text of AgentAPI that is passed on, in bytes.
const maxWords = 500

// plain is the text on one line, and not too long.
func plain(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return s
}

// drain reads the rest of an answer, within reason, so that its connection can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 64<<10))
	_ = body.Close()
}

// ClockSkew returns how far the clock of who answers is ahead of now; 0 when it is about the same, or is not told.
func ClockSkew(res *http.Response, now time.Time) time.Duration {
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return 0
	}
	skew := at.Add(500 * time.Millisecond).Sub(now) // the header has whole seconds
	if skew.Abs() < 1500*time.Millisecond {
		return 0
	}
	return skew
}

// get reads what is at the path.
func (x *client) get(ctx context.Context, path string, into any) error {
	bounded, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	res, err := x.do(bounded, http.MethodGet, path, nil)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(res.Body, maxConversation)).Decode(into)
		drain(res.Body)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ahead is how far the agent's clock is ahead of Fleet's.
func (x *client) ahead() time.Duration { return time.Duration(x.skew.Load()) }

// said are the messages that AgentAPI has.
func (v *view) said() []message {
	if len(v.messages) > 0 && v.messages[0].ID == shownID {
		return v.messages[1:]
	}
	return v.messages
}

// state asks whether the agent works: statusRunning or statusStable.
func (x *client) state(ctx context.Context) (status, agentType string, err error) {
	var s struct {
		Status    string `json:"status"`
		AgentType string `json:"agent_type"`
	}
	err = x.get(ctx, "status", &s)
	return s.Status, s.AgentType, err
}

// look reads the whole conversation. The status is older than the messages, so when it is stable they are all there,
// unless a message was given in between, which then is the last one.
func (x *client) look(ctx context.Context) (*view, error) {
	var v view
	var err error
	if v.status, v.agentType, err = x.state(ctx); err != nil {
		return nil, err
	}
	var all struct{ Messages []message }
	if err := x.get(ctx, "messages", &all); err != nil {
		return nil, err
	}
	v.messages, v.skew = all.Messages, x.ahead()
	if n := len(v.messages); n > 0 && v.messages[n-1].Role == roleUser {
		v.status = statusRunning
	}
	return &v, nil
}

// send gives the agent a message, or keys to its terminal.
func (x *client) send(ctx context.Context, kind, content string) error {
	bounded, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	res, err := x.do(bounded, http.MethodPost, "message", map[string]string{"type": kind, "content": content})
	if err == nil {
		drain(res.Body)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// watch calls changed with the conversation whenever it has changed, until the stream ends or changed returns false.
// The view belongs to watch: changed must not keep it, nor change it.
func (x *client) watch(ctx context.Context, changed func(*view) bool) error {
	res, err := x.do(ctx, http.MethodGet, "events", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var v view
	r := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		name, data, err := ReadEvent(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := v.apply(name, data); err != nil {
			return err
		}
		// The first thing that is said of the status is when all messages there are were said.
		v.skew = x.ahead()
		if v.status != "" && !changed(&v) {
			return nil
		}
	}
}

// apply takes in an event.
func (v *view) apply(name string, data []byte) error {
	switch name {
	case "message_update":
		var m struct {
			message
			Message string `json:"message"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		m.Content = m.Message
		for i := range v.messages {
			if v.messages[i].ID == m.ID {
				v.messages[i] = m.message
				return nil
			}
		}
		v.messages = append(v.messages, m.message)
	case "status_change":
		var s struct {
			Status    string `json:"status"`
			AgentType string `json:"agent_type"`
		}
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		v.status, v.agentType = s.Status, s.AgentType
	}
	return nil
}

// ReadEvent reads one server-sent event.
func ReadEvent(r *bufio.Reader) (name string, data []byte, err error) {
	for {
		line, err := r.ReadSlice('\n')
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > maxConversation {
				return "", nil, errors.New("an event is too long")
			}
			line, err = r.ReadSlice('\n')
		}
		if long != nil {
			line = append(long, line...)
		}
		if err != nil {
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0 && data != nil:
			return name, data, nil
		case bytes.HasPrefix(line, []byte("event:")):
			name = string(bytes.TrimSpace(line[len("event:"):]))
		case bytes.HasPrefix(line, []byte("data:")):
			data = append(data, bytes.TrimSpace(line[len("data:"):])...)
		}
	}
}
