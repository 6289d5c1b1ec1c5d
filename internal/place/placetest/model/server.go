package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every complete answer reports this usage, in tokens.
const (
	InputTokens  = 1000
	OutputTokens = 500
)

// Server is the stub that the package comment describes.
type Server struct {
	URL string // without a path; clients of chat completions need URL + "/v1"

	http *http.Server

	mu       sync.Mutex
	requests []Request
	changed  chan struct{} // closed and replaced by a new channel when a request is recorded
	gates    map[string]*Gate
	answer   func(Request) Answer
	key      string
	failed   map[string]bool // requests that were answered with an error, by their number of answers and prompt; see Answer.FirstStatus
}

// New starts a server on a free loopback port. It runs until the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Listen starts a server at the address. Close ends it.
func Listen(address string) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: "http://" + l.Addr().String(), gates: map[string]*Gate{}, failed: map[string]bool{}, changed: make(chan struct{}), answer: ScriptedAnswer,
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Close closes the server and aborts waiting answers.
func (s *Server) Close() { _ = s.http.Close() }

// SetAnswer sets the function that returns the answer to a request. Before the first call of SetAnswer, it is ScriptedAnswer.
func (s *Server) SetAnswer(f func(Request) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// RequireKey makes the server refuse requests with another key. The requests are still recorded.
func (s *Server) RequireKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// Gate returns the gate with the name. The first call with a name creates the gate.
func (s *Server) Gate(name string) *Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[name] == nil {
		s.gates[name] = newGate()
	}
	return s.gates[name]
}

// Requests returns all recorded requests, oldest first. Requests for answers are recorded, unless they cannot be parsed.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// RequestsWith returns the recorded requests whose prompt contains the text, oldest first.
func (s *Server) RequestsWith(text string) []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool {
		prompt, _ := r.Prompt()
		return !strings.Contains(prompt, text)
	})
}

// Await waits until n requests are recorded or ctx is done, and returns all recorded requests.
func (s *Server) Await(ctx context.Context, n int) ([]Request, error) {
	for {
		s.mu.Lock()
		requests, changed := slices.Clone(s.requests), s.changed
		s.mu.Unlock()
		if len(requests) >= n {
			return requests, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return requests, ctx.Err()
		}
	}
}

// ServeHTTP answers POST .../messages, .../chat/completions, .../responses and .../models/MODEL:METHOD, and GET .../models.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
		s.serve(w, r, parseAnthropic, newAnthropicWriter)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.serve(w, r, parseOpenAI, newOpenAIWriter)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses"):
		s.serve(w, r, parseResponses, newResponsesWriter)
	case r.Method == http.MethodPost && strings.HasSuffix(strings.ToLower(r.URL.Path), "generatecontent"):
		s.serve(w, r, parseGemini(r.URL.Path), newGeminiWriter)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, ":countTokens"):
		writeJSON(w, http.StatusOK, map[string]any{"totalTokens": InputTokens})
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		var data []map[string]any
		for _, name := range []string{"stub-large", "stub-small"} {
			data = append(data, map[string]any{"id": name, "object": "model", "type": "model", "display_name": name})
		}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data, "has_more": false})
	default:
		http.NotFound(w, r)
	}
}

// maxBody limits the body of a request, in bytes.
const maxBody = 64 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request, parse func([]byte) (Request, error), newWriter func(http.ResponseWriter, Request) writer) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the client has disconnected, or the body is too large
	}
	q, err := parse(body)
	q.Path, q.Header = r.URL.Path, r.Header.Clone()
	a := newWriter(w, q)
	if err != nil {
		a.fail(http.StatusBadRequest, "cannot parse the body: "+err.Error())
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, q)
	close(s.changed)
	s.changed = make(chan struct{})
	answerTo, key := s.answer, s.key
	s.mu.Unlock()
	problem := q.problem()
	switch {
	case key != "" && q.Key() != key:
		a.fail(http.StatusUnauthorized, "invalid x-api-key")
	case problem != "":
		a.fail(http.StatusBadRequest, problem)
	default:
		answer := answerTo(q)
		if answer.FirstStatus != 0 && s.recordFirst(q) {
			w.Header().Set("X-Should-Retry", "true")
			a.fail(answer.FirstStatus, "try again")
			return
		}
		s.sendAnswer(r.Context(), a, answer)
	}
}

// recordFirst records the request. It reports whether no request with this prompt and this number of answers was recorded before.
func (s *Server) recordFirst(q Request) bool {
	prompt, answers := q.Prompt()
	key := fmt.Sprint(answers, prompt)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.failed[key]
	s.failed[key] = true
	return !known
}

// sendAnswer waits at the gate of the answer, if it has one, and writes the answer.
func (s *Server) sendAnswer(ctx context.Context, a writer, answer Answer) {
	if answer.Gate != "" {
		g := s.Gate(answer.Gate)
		g.arrive()
		select {
		case <-g.open:
		case <-ctx.Done():
			g.leave()
			return
		}
	}
	if answer.Status != 0 {
		a.fail(answer.Status, answer.Text)
		return
	}
	for i := range answer.Calls {
		answer.Calls[i].ID = newID()
	}
	a.begin()
	if answer.Thought != "" {
		a.writeThought(answer.Thought)
	}
	if answer.Text != "" {
		a.writeText(answer.Text)
	}
	switch {
	case answer.Cut:
		panic(http.ErrAbortHandler) // net/http closes the connection without finishing the response
	case answer.Forever:
		g := s.Gate("forever")
		g.arrive()
		if err := forever(ctx, g, a); err != nil {
			g.leave()
			return
		}
	}
	for _, c := range answer.Calls {
		a.writeCall(c)
	}
	a.end(len(answer.Calls) > 0)
}

// forever writes a text every 5 ms until the gate is open. It returns an error if ctx is done first. Tests do not
// depend on the interval.
func forever(ctx context.Context, g *Gate, a writer) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.writeText(".")
		case <-g.open:
			return nil
		case <-ctx.Done():
			return errors.New("the client has disconnected")
		}
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
