//go:build cgo

package cagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/model/provider"
	"github.com/docker/cagent/pkg/model/provider/base"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
)

// tokens are what one request used.
type tokens struct{ input, output, cached, written int64 }

// in is how many tokens were read, from a cache or not.
func (t tokens) in() int64 { return t.input + t.cached + t.written }

// used is one request that was answered.
type used struct {
	model string
	tokens
	usd float64
}

// gate is between a run and its models. When the run is over, no request goes through any more: the library is told
// instead that the model has nothing to add, which ends it in order.
type gate struct {
	config  *Config
	secrets *secrets
	over    func() bool // the run is to end
	limit   func()      // the run has asked as often as it may
	told    func()      // more is known of what was used; nil: nobody wants to hear

	mu       sync.Mutex
	requests int
	used     []used               // and not yet taken
	total    fleet.Usage          // of requests that were answered
	usd      float64              // what they cost
	flight   map[*exchange]*gated // requests that are being answered
}

// spent returns what the run has used so far, requests under way included, and what that cost.
func (g *gate) spent() (fleet.Usage, float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	total, usd := g.total, g.usd
	for x, m := range g.flight {
		if t, _ := x.state(); t != nil {
			total.InputTokens, total.OutputTokens = total.InputTokens+t.in(), total.OutputTokens+t.output
			usd += g.config.priceOf(m.ID()).usd(*t)
		}
	}
	return total, usd
}

// begin takes note of a request.
func (g *gate) begin(x *exchange, m *gated) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flight == nil {
		g.flight = map[*exchange]*gated{}
	}
	g.flight[x] = m
}

// end takes note of what a request has used; nil: nothing that is known.
func (g *gate) end(x *exchange, u *used) {
	g.mu.Lock()
	delete(g.flight, x)
	if u != nil {
		g.used = append(g.used, *u)
		g.total.Model = u.model
		g.total.InputTokens += u.in()
		g.total.OutputTokens += u.output
		g.usd += u.usd
	}
	g.mu.Unlock()
	if u != nil && g.told != nil {
		g.told()
	}
}

// take returns what was used since it was asked last.
func (g *gate) take() []used {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.used
	g.used = nil
	return u
}

// asked is how often a model was asked.
func (g *gate) asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// pass reports whether the next request may go through, and counts it.
func (g *gate) pass(max int) bool {
	if g.over() {
		return false
	}
	g.mu.Lock()
	full := g.requests >= max
	if !full {
		g.requests++
	}
	g.mu.Unlock()
	if full {
		g.limit()
	}
	return !full
}

// gated is a model behind the gate.
type gated struct {
	provider.Provider
	gate   *gate
	max    int // how often it may be asked in a run
	change changes
}

// BaseConfig implements provider.Provider. It says nothing, since the library would make another model of it, beside
// the gate.
func (m *gated) BaseConfig() base.Config { return base.Config{} }

// CreateChatCompletionStream implements provider.Provider.
func (m *gated) CreateChatCompletionStream(ctx context.Context, messages []chat.Message, offered []tools.Tool) (s chat.MessageStream, err error) {
	if !m.gate.pass(m.max) {
		return nothing{}, nil
	}
	x := &exchange{change: m.change, told: m.gate.told}
	m.gate.begin(x, m)
	defer func() {
		if p := recover(); p != nil {
			m.gate.config.Logger.ErrorContext(ctx, "a model's client panicked", "panic", p, "stack", string(debug.Stack()))
			err = errors.New("the model's client broke down")
		}
		err = m.hidden(x, err)
	}()
	ctx = withExchange(ctx, x)
	s, err = m.Provider.CreateChatCompletionStream(ctx, answered(messages), offered)
	if err != nil {
		m.gate.end(x, nil)
		return nil, err
	}
	return &metered{MessageStream: s, model: m, exchange: x}, nil
}

// hidden is the error without secrets. It still is what it was to errors.Is.
func (m *gated) hidden(x *exchange, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return err
	}
	if m.gate.over() {
		return context.Canceled // whatever the client makes of it
	}
	if _, named := x.state(); named != nil {
		err = named // of which the client knows less
	}
	return fmt.Errorf("the model %s: %s", m.ID(), m.gate.secrets.hide(withoutPrefix(err.Error())))
}

// answered gives an answer to calls of tools that have none: of tools that the model made up, which the library passes
// over, and of those that a run was cut off in. No API takes a conversation with a call that was not answered.
func answered(messages []chat.Message) []chat.Message {
	var out []chat.Message
	var open []tools.ToolCall
	settle := func() {
		for _, c := range open {
			out = append(out, chat.Message{
				Role: chat.MessageRoleTool, ToolCallID: c.ID,
				Content: fmt.Sprintf("The tool %q gave no answer: there is no such tool, or the work was cut off.", c.Function.Name),
			})
		}
		open = nil
	}
	for _, m := range messages {
		if m.Role == chat.MessageRoleTool {
			i := indexOfCall(open, m.ToolCallID)
			if i < 0 {
				continue // an answer to nothing
			}
			open = append(open[:i:i], open[i+1:]...)
		} else {
			settle()
			open = m.ToolCalls
		}
		out = append(out, m)
	}
	settle()
	return out
}

func indexOfCall(calls []tools.ToolCall, id string) int {
	for i, c := range calls {
		if c.ID == id {
			return i
		}
	}
	return -1
}

// metered counts what the answer used.
type metered struct {
	chat.MessageStream
	model    *gated
	exchange *exchange
	name     string
	last     *chat.Usage
}

// Recv implements chat.MessageStream.
func (s *metered) Recv() (r chat.MessageStreamResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the model's answer could not be read")
		}
	}()
	r, err = s.MessageStream.Recv()
	if r.Usage != nil {
		s.last = r.Usage
	}
	if r.Model != "" {
		s.name = r.Model
	}
	return r, s.model.hidden(s.exchange, err)
}

// Close implements chat.MessageStream.
func (s *metered) Close() {
	s.MessageStream.Close()
	g := s.model.gate
	u := used{model: s.name}
	id := s.model.ID()
	if u.model == "" {
		_, u.model, _ = strings.Cut(id, "/")
	}
	if s.last != nil {
		u.tokens = tokens{s.last.InputTokens, s.last.OutputTokens, s.last.CachedInputTokens, s.last.CacheWriteTokens}
	}
	if told, _ := s.exchange.state(); told != nil { // also of an answer that was cut off, and in parts
		u.tokens = *told
	}
	u.usd = g.config.priceOf(id).usd(u.tokens)
	g.end(s.exchange, &u)
}

// nothing is the answer of a model that has nothing to add.
type nothing struct{}

// Recv implements chat.MessageStream.
func (nothing) Recv() (chat.MessageStreamResponse, error) {
	return chat.MessageStreamResponse{Choices: []chat.MessageStreamChoice{{FinishReason: chat.FinishReasonStop}}}, nil
}

// Close implements chat.MessageStream.
func (nothing) Close() {}
