//go:build cgo

package run

import (
	"errors"
	"io"
	"strings"

	"github.com/docker/cagent/pkg/chat"
)

// meteredStream measures the usage of an answer. The library ends an answer at the first finish reason. If an answer ends
// without a finish reason and is not empty, the library sends another request. Models send the finish reason before, with or
// after their last text and the usage, or not at all. So meteredStream removes the finish reasons of the model, and adds one
// at the end.
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

// finish returns the last part of the answer, with the finish reason and the usage.
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

// usage returns the usage so far: that of the exchange, or else the client's last report.
func (s *meteredStream) usage() tokens {
	if reported, _ := s.exchange.state(); reported != nil { // known even for an incomplete answer
		return *reported
	}
	if s.lastUsage == nil {
		return tokens{}
	}
	t := tokens{s.lastUsage.InputTokens, s.lastUsage.OutputTokens, s.lastUsage.CachedInputTokens, s.lastUsage.CacheWriteTokens}
	if strings.HasPrefix(s.model.ID(), "google/") { // answers of Vertex AI do not pass modelTransport
		t.input, t.output = max(0, t.input-t.cached), t.output+s.lastUsage.ReasoningTokens
	}
	return t
}

// Close implements chat.MessageStream. It records the usage and the cost of the request.
func (s *meteredStream) Close() {
	s.MessageStream.Close()
	g := s.model.gate
	u := requestUsage{model: s.modelName, tokens: s.usage(), truncated: s.exchange.isTruncated()}
	id := s.model.ID()
	if u.model == "" {
		_, u.model, _ = strings.Cut(id, "/")
	}
	u.usd = g.priceOf(id).USD(u.toFleet())
	g.end(s.exchange, &u)
}
