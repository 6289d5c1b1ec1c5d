//go:build cgo

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/model/provider"
	"github.com/docker/cagent/pkg/model/provider/base"
	"github.com/docker/cagent/pkg/tools"
)

// gatedModel is a model whose requests pass the gate.
type gatedModel struct {
	provider.Provider
	gate        *gate
	maxRequests int // number of requests of the whole run after which the model sends no more
	edits       bodyEdits
}

// BaseConfig implements provider.Provider. It returns an empty configuration, because with a complete one the library
// would create another model, which bypasses the gate.
func (m *gatedModel) BaseConfig() base.Config { return base.Config{} }

// CreateChatCompletionStream implements provider.Provider. It returns an empty answer if the gate does not admit the request.
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

// publicError returns the error of a request without secrets. errors.Is still recognizes io.EOF and cancellation.
func (m *gatedModel) publicError(x *exchange, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return err
	}
	if m.gate.isOver() {
		return context.Canceled // whatever error the client returned
	}
	if _, recorded := x.state(); recorded != nil {
		err = recorded // more precise than the client's error
	}
	return fmt.Errorf("the model %s: %s", m.ID(), m.gate.secrets.hide(withoutPrefix(err.Error())))
}

// emptyStream is an empty answer. It makes the library end the run.
type emptyStream struct{}

// Recv implements chat.MessageStream.
func (emptyStream) Recv() (chat.MessageStreamResponse, error) {
	return chat.MessageStreamResponse{Choices: []chat.MessageStreamChoice{{FinishReason: chat.FinishReasonStop}}}, nil
}

// Close implements chat.MessageStream.
func (emptyStream) Close() {}
