package question

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// ToolAskUser is the name of the server's tool.
const ToolAskUser = "ask_user"

// Server serves the tool ask_user over MCP. It implements only the methods that clients of tools need. It must start
// fast, because each run of an agent starts a server.
type Server struct {
	runDir string

	mu    sync.Mutex
	calls map[string]context.CancelFunc // active calls, by the id of the request
}

// NewServer returns a server for the run in the directory.
func NewServer(runDir string) *Server {
	return &Server{runDir: runDir, calls: map[string]context.CancelFunc{}}
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Version   string          `json:"protocolVersion"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Progress json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// Serve answers requests in JSON-RPC, one message per line, until the input ends. Then it withdraws open questions. It ignores
// lines that are not valid requests.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	var mu sync.Mutex // one line at a time
	send := func(m any) {
		b, err := json.Marshal(m)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(b, '\n')) // an error means that the client has ended, and with it the run
	}
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		var r request
		if len(line) > 0 && json.Unmarshal(line, &r) == nil {
			s.handle(ctx, &calls, r, send)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// HandleMessage handles one message of JSON-RPC. It calls reply exactly once, perhaps later from another
// goroutine. A notification, a cancelled call and an invalid message get an empty result.
func (s *Server) HandleMessage(ctx context.Context, data []byte, reply func(json.RawMessage)) {
	var calls sync.WaitGroup
	sent := false
	send := func(m any) {
		if b, err := json.Marshal(m); err == nil && !sent {
			sent = true
			reply(b)
		}
	}
	var r request
	if json.Unmarshal(data, &r) == nil {
		r.Params.Meta.Progress = nil // there can be only one reply
		s.handle(ctx, &calls, r, send)
	}
	go func() {
		calls.Wait()
		if len(r.ID) == 0 {
			r.ID = json.RawMessage("0")
		}
		send(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": map[string]any{}})
	}()
}

// handle answers a request with send. It adds a call of a tool to calls, and does not wait for it.
func (s *Server) handle(ctx context.Context, calls *sync.WaitGroup, r request, send func(any)) {
	reply := func(result any) {
		if len(r.ID) > 0 {
			send(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": result})
		}
	}
	switch r.Method {
	case "initialize":
		version := r.Params.Version
		if version == "" {
			version = "2025-06-18"
		}
		reply(map[string]any{
			"protocolVersion": version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "fleet-ask", "version": "1"},
		})
	case "ping":
		reply(map[string]any{})
	case "tools/list":
		reply(map[string]any{"tools": toolList})
	case "tools/call":
		ctx, cancel := context.WithCancel(ctx)
		s.mu.Lock()
		s.calls[string(r.ID)] = cancel
		s.mu.Unlock()
		calls.Go(func() {
			defer func() {
				cancel()
				s.mu.Lock()
				delete(s.calls, string(r.ID))
				s.mu.Unlock()
			}()
			defer sendProgress(r, send)()
			text, isError := "there is no such tool", true
			if r.Params.Name == ToolAskUser {
				text, isError = s.askUser(ctx, r.Params.Arguments)
			}
			if ctx.Err() == nil { // otherwise the client no longer waits for the answer
				reply(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": isError})
			}
		})
	case "notifications/cancelled":
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.calls[string(r.Params.RequestID)]; cancel != nil {
			cancel()
		}
	default:
		if len(r.ID) > 0 {
			send(map[string]any{"jsonrpc": "2.0", "id": r.ID, "error": map[string]any{"code": -32601, "message": "no such method: " + r.Method}})
		}
	}
}

var toolList = []any{map[string]any{
	"name": ToolAskUser,
	"description": "Asks the person who gave you the task a question and waits for the answer. " +
		"Use it when you cannot decide yourself and a wrong guess would cost work.",
	"_meta": map[string]any{"anthropic/alwaysLoad": true}, // otherwise the model has to search for it
	"inputSchema": map[string]any{"type": "object", "required": []string{"question"}, "properties": map[string]any{
		"question": map[string]any{"type": "string", "description": "What you want to know, with all that is needed to answer it"},
		"options": map[string]any{
			"type": "array", "items": map[string]any{"type": "string"}, "description": "Answers that you suggest; any other text can be answered too",
		},
	}},
}}

// progressInterval is the interval of progress notifications for a call.
const progressInterval = 20 * time.Second

// sendProgress sends progress notifications until the returned function is called.
func sendProgress(r request, send func(any)) (stop func()) {
	if len(r.Params.Meta.Progress) == 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case <-tick.C:
				send(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{
					"progressToken": r.Params.Meta.Progress, "progress": n, "message": "waiting for an answer",
				}})
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

func (s *Server) askUser(ctx context.Context, arguments json.RawMessage) (text string, isError bool) {
	var a struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil || strings.TrimSpace(a.Question) == "" {
		return "question must be a text, and options a list of texts", true
	}
	answer, err := Ask(ctx, s.runDir, Question{Kind: KindText, Text: a.Question, Options: a.Options})
	switch {
	case err != nil:
		return "nobody can be asked now: " + err.Error(), true
	case answer.Status == Answered && answer.Message != "":
		return answer.Answer + "\n" + answer.Message, false
	case answer.Status == Answered:
		return answer.Answer, false
	case answer.Status == Expired:
		return "Nobody answered in time. Decide yourself, or end your task and say what you need to know.", false
	}
	return answer.Reason(), true
}
