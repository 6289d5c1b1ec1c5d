//go:build cgo

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/model/provider"
	"github.com/docker/cagent/pkg/model/provider/base"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
	"fleet/internal/price"
)

// tokens are the token counts of one request.
type tokens struct{ input, output, cached, written int64 }

// inputTotal returns the number of input tokens, including cached tokens.
func (t tokens) inputTotal() int64 { return t.input + t.cached + t.written }

// requestUsage is the usage of one answered request.
type requestUsage struct {
	model string
	tokens
	usd       float64
	truncated bool // the answer ended at the limit of tokens
}

// gate is between a run and its models. When the run is over, the gate sends no more requests to the models. Instead,
// it returns an empty answer to the library, which then ends the run normally.
type gate struct {
	prices  *price.List
	log     *slog.Logger
	secrets *secrets
	isOver  func() bool // reports whether the run must end
	onLimit func()      // called when the limit of requests is reached
	onUsage func()      // called when the usage changes

	allowance string          // path of driver.AllowanceFile; empty: there is no limit
	quit      <-chan struct{} // closed when the run must end
	onWait    func()          // called when a request has waited for a larger allowance for a while

	mu       sync.Mutex
	requests int
	untaken  []requestUsage            // usage that takeUsage has not returned yet
	total    fleet.Usage               // usage of all answered requests
	usd      float64                   // cost of total
	active   map[*exchange]*gatedModel // active requests
}

// spent returns the usage and cost of the run, active requests included.
func (g *gate) spent() (fleet.Usage, float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	total, usd := g.total, g.usd
	for x, m := range g.active {
		if t, _ := x.state(); t != nil {
			total.InputTokens, total.OutputTokens = total.InputTokens+t.inputTotal(), total.OutputTokens+t.output
			usd += g.priceOf(m.ID()).USD(t.stepUsage())
		}
	}
	return total, usd
}

// priceOf returns the price of the model provider/model. The price of an unknown model is 0.
func (g *gate) priceOf(id string) fleet.Price {
	p, _ := g.prices.Of(id)
	return p
}

// begin adds an active request.
func (g *gate) begin(x *exchange, m *gatedModel) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active == nil {
		g.active = map[*exchange]*gatedModel{}
	}
	g.active[x] = m
}

// end removes an active request and adds its usage. u is nil if the usage is unknown.
func (g *gate) end(x *exchange, u *requestUsage) {
	g.mu.Lock()
	delete(g.active, x)
	if u != nil {
		g.untaken = append(g.untaken, *u)
		g.total.Model = u.model
		g.total.InputTokens += u.inputTotal()
		g.total.OutputTokens += u.output
		g.usd += u.usd
	}
	g.mu.Unlock()
	if u != nil {
		g.onUsage()
	}
}

// takeUsage returns the usage since the last call.
func (g *gate) takeUsage() []requestUsage {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.untaken
	g.untaken = nil
	return u
}

// requestCount returns the number of requests so far.
func (g *gate) requestCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// admit reports whether the next request may be sent, and counts it if so. After maxRequests requests, it ends the run.
func (g *gate) admit(max int) bool {
	if g.isOver() {
		return false
	}
	g.mu.Lock()
	full := g.requests >= max
	if !full {
		g.requests++
	}
	g.mu.Unlock()
	if full {
		g.onLimit()
	}
	return !full
}

// gatedModel is a model whose requests pass the gate.
type gatedModel struct {
	provider.Provider
	gate        *gate
	maxRequests int // maximum number of requests in a run
	edits       bodyEdits
}

// BaseConfig implements provider.Provider. It returns an empty configuration, because with a complete one the library
// would create another model, which bypasses the gate.
func (m *gatedModel) BaseConfig() base.Config { return base.Config{} }

// CreateChatCompletionStream implements provider.Provider.
func (m *gatedModel) CreateChatCompletionStream(ctx context.Context, messages []chat.Message, offered []tools.Tool) (s chat.MessageStream, err error) {
	if !m.gate.awaitAllowance(ctx) || !m.gate.admit(m.maxRequests) {
		return emptyStream{}, nil
	}
	x := &exchange{edits: m.edits, onUsage: m.gate.onUsage}
	m.gate.begin(x, m)
	defer func() {
		if p := recover(); p != nil {
			m.gate.log.ErrorContext(ctx, "model client panicked", "panic", p, "stack", string(debug.Stack()))
			err = errors.New("the model's client panicked")
		}
		err = m.publicError(x, err)
	}()
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	s, err = m.Provider.CreateChatCompletionStream(ctx, completeToolResults(messages), offered)
	if err != nil {
		m.gate.end(x, nil)
		return nil, err
	}
	return &meteredStream{MessageStream: s, model: m, exchange: x}, nil
}

// publicError returns the error of a request without secrets. io.EOF and cancellation stay recognisable for errors.Is.
func (m *gatedModel) publicError(x *exchange, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return err
	}
	if m.gate.isOver() {
		return context.Canceled // whatever error the client returned
	}
	if _, named := x.state(); named != nil {
		err = named // more precise than the client's error
	}
	return fmt.Errorf("the model %s: %s", m.ID(), m.gate.secrets.hide(withoutPrefix(err.Error())))
}

// completeToolResults adds a result for each tool call without one: the library skips calls of unknown tools, and other
// calls were interrupted. It removes results without a call. APIs refuse a conversation in which a call has no result.
func completeToolResults(messages []chat.Message) []chat.Message {
	var out []chat.Message
	var open []tools.ToolCall
	answerOpenCalls := func() {
		for _, c := range open {
			out = append(out, chat.Message{
				Role: chat.MessageRoleTool, ToolCallID: c.ID,
				Content: fmt.Sprintf("The tool %q gave no answer: there is no such tool, or the call was interrupted, and may have had an effect all the same.", c.Function.Name),
			})
		}
		open = nil
	}
	for _, m := range messages {
		if m.Role == chat.MessageRoleTool {
			i := indexOfCall(open, m.ToolCallID)
			if i < 0 {
				continue // a result without a call
			}
			open = append(open[:i:i], open[i+1:]...)
		} else {
			answerOpenCalls()
			open = m.ToolCalls
		}
		out = append(out, m)
	}
	answerOpenCalls()
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

// meteredStream is an answer whose usage is counted. The library ends an answer at the first finish reason, and sends the
// next request if it gets neither a finish reason nor an empty answer. Models finish before, with or after their last text
// and the usage, or not at all. So meteredStream removes their finish reasons, and adds one at the end.
type meteredStream struct {
	chat.MessageStream
	model        *gatedModel
	exchange     *exchange
	modelName    string
	lastUsage    *chat.Usage
	hasToolCalls bool // the answer has tool calls
	ended        bool
}

// Recv implements chat.MessageStream.
func (s *meteredStream) Recv() (r chat.MessageStreamResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("cannot read the model's answer")
		}
	}()
	if s.ended {
		return r, io.EOF
	}
	r, err = s.MessageStream.Recv()
	if r.Usage != nil {
		s.lastUsage, r.Usage = r.Usage, nil
	}
	if r.Model != "" {
		s.modelName = r.Model
	}
	for i := range r.Choices {
		r.Choices[i].FinishReason = ""
		s.hasToolCalls = s.hasToolCalls || len(r.Choices[i].Delta.ToolCalls) > 0
	}
	if errors.Is(err, io.EOF) {
		if _, err = s.exchange.state(); err == nil {
			return s.finish(), nil
		}
	}
	return r, s.model.publicError(s.exchange, err)
}

// finish returns the last part of the answer.
func (s *meteredStream) finish() chat.MessageStreamResponse {
	s.ended = true
	reason := chat.FinishReasonStop
	if s.hasToolCalls {
		reason = chat.FinishReasonToolCalls
	}
	u := s.usage()
	return chat.MessageStreamResponse{
		Choices: []chat.MessageStreamChoice{{FinishReason: reason}},
		Usage:   &chat.Usage{InputTokens: u.input, OutputTokens: u.output, CachedInputTokens: u.cached, CacheWriteTokens: u.written},
	}
}

// usage returns the usage so far.
func (s *meteredStream) usage() tokens {
	if told, _ := s.exchange.state(); told != nil { // known even for an incomplete answer
		return *told
	}
	if s.lastUsage == nil {
		return tokens{}
	}
	t := tokens{s.lastUsage.InputTokens, s.lastUsage.OutputTokens, s.lastUsage.CachedInputTokens, s.lastUsage.CacheWriteTokens}
	if strings.HasPrefix(s.model.ID(), "google/") { // of Vertex AI, whose answers do not pass modelTransport
		t.input, t.output = max(0, t.input-t.cached), t.output+s.lastUsage.ReasoningTokens
	}
	return t
}

// Close implements chat.MessageStream.
func (s *meteredStream) Close() {
	s.MessageStream.Close()
	g := s.model.gate
	u := requestUsage{model: s.modelName, tokens: s.usage(), truncated: s.exchange.isTruncated()}
	id := s.model.ID()
	if u.model == "" {
		_, u.model, _ = strings.Cut(id, "/")
	}
	u.usd = g.priceOf(id).USD(u.stepUsage())
	g.end(s.exchange, &u)
}

// emptyStream is an empty answer, with which the library ends the run.
type emptyStream struct{}

// Recv implements chat.MessageStream.
func (emptyStream) Recv() (chat.MessageStreamResponse, error) {
	return chat.MessageStreamResponse{Choices: []chat.MessageStreamChoice{{FinishReason: chat.FinishReasonStop}}}, nil
}

// Close implements chat.MessageStream.
func (emptyStream) Close() {}
