package ask

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Names of the server's tools.
const (
	ToolApprove = "approve"
	ToolAskUser = "ask_user"
)

// server serves tools over MCP: JSON-RPC, one message per line. It implements only the methods that clients of tools
// need. It must start fast, because each run of an agent starts a server.
type server struct {
	run      string
	approves bool // the server has the tool approve

	writing sync.Mutex
	out     io.Writer

	mu    sync.Mutex
	calls map[string]context.CancelFunc // active calls, by the id of the request
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

// serve answers requests until the input ends, and then withdraws open questions.
func (s *server) serve(ctx context.Context, in io.Reader) error {
	s.calls = map[string]context.CancelFunc{}
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		var r request
		if len(line) > 0 && json.Unmarshal(line, &r) == nil {
			s.handle(ctx, &calls, r)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) handle(ctx context.Context, calls *sync.WaitGroup, r request) {
	switch r.Method {
	case "initialize":
		version := r.Params.Version
		if version == "" {
			version = "2025-06-18"
		}
		s.reply(r, map[string]any{
			"protocolVersion": version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "fleet-ask", "version": "1"},
		})
	case "ping":
		s.reply(r, map[string]any{})
	case "tools/list":
		s.reply(r, map[string]any{"tools": s.tools()})
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
			s.call(ctx, r)
		})
	case "notifications/cancelled":
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.calls[string(r.Params.RequestID)]; cancel != nil {
			cancel()
		}
	default:
		if len(r.ID) > 0 {
			s.send(map[string]any{"id": r.ID, "error": map[string]any{"code": -32601, "message": "no such method: " + r.Method}})
		}
	}
}

func (s *server) reply(r request, result any) {
	if len(r.ID) > 0 {
		s.send(map[string]any{"id": r.ID, "result": result})
	}
}

func (s *server) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.out.Write(append(b, '\n')) // an error means that the client has ended, and with it the run
}

func (s *server) tools() []any {
	object := func(required []string, properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties, "required": required}
	}
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	all := []any{map[string]any{
		"name": ToolAskUser,
		"description": "Asks the person who gave you the task a question and waits for the answer. " +
			"Use it when you cannot decide yourself and a wrong guess would cost work.",
		"_meta": map[string]any{"anthropic/alwaysLoad": true}, // otherwise the model has to search for it
		"inputSchema": object([]string{"question"}, map[string]any{
			"question": text("What you want to know, with all that is needed to answer it"),
			"options":  map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "Answers that you suggest; any other text can be answered too"},
		}),
	}}
	if s.approves {
		all = append(all, map[string]any{
			"name": ToolApprove, "description": "Answers requests for permission to use a tool. It is for the program, not for the model.",
			"inputSchema": object([]string{"tool_name", "input"}, map[string]any{
				"tool_name": text("The tool"), "input": map[string]any{"type": "object"}, "tool_use_id": text("The call"),
			}),
		})
	}
	return all
}

// call answers a tool call.
func (s *server) call(ctx context.Context, r request) {
	defer s.progress(r)()
	text, isError := "there is no such tool", true
	switch {
	case r.Params.Name == ToolAskUser:
		text, isError = s.askUser(ctx, r.Params.Arguments)
	case r.Params.Name == ToolApprove && s.approves:
		text, isError = s.approve(ctx, r.Params.Arguments), false
	}
	if ctx.Err() != nil {
		return // the client no longer waits for the answer
	}
	s.reply(r, map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": isError})
}

// progressEvery is the interval of progress notifications for a call.
const progressEvery = 20 * time.Second

// progress sends progress notifications until the returned function is called.
func (s *server) progress(r request) (stop func()) {
	if len(r.Params.Meta.Progress) == 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case <-tick.C:
				s.send(map[string]any{"method": "notifications/progress", "params": map[string]any{
					"progressToken": r.Params.Meta.Progress, "progress": n, "message": "waiting for an answer",
				}})
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

func (s *server) askUser(ctx context.Context, arguments json.RawMessage) (text string, isError bool) {
	var a struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil || strings.TrimSpace(a.Question) == "" {
		return "question must be a text, and options a list of texts", true
	}
	answer, err := Ask(ctx, s.run, Question{Kind: Text, Text: a.Question, Options: a.Options})
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
	return answer.Why(), true
}

// approve answers Claude Code's request for permission, in the format that Claude Code expects.
func (s *server) approve(ctx context.Context, arguments json.RawMessage) string {
	var a struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"input"`
	}
	deny := func(why string) string { return verdict(map[string]any{"behavior": "deny", "message": why}) }
	if err := json.Unmarshal(arguments, &a); err != nil || a.Tool == "" {
		return deny("the request for permission was not understood")
	}
	if a.Tool == builtinAsk {
		if text := s.askBuiltin(ctx, a.Input); text != "" {
			return text
		}
	}
	answer, err := Ask(ctx, s.run, Question{Kind: Permission, Tool: a.Tool, Input: a.Input})
	switch {
	case err != nil:
		return deny(fmt.Sprintf("nobody can be asked for permission now: %v", err))
	case !answer.Allowed():
		return deny(answer.Why())
	}
	if len(a.Input) == 0 {
		a.Input = json.RawMessage("{}")
	}
	return verdict(map[string]any{"behavior": "allow", "updatedInput": a.Input})
}

func verdict(v map[string]any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return `{"behavior":"deny","message":"the answer could not be written"}`
	}
	return string(b)
}
