//go:build cgo

package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/runner/driver"
)

// guard wraps a toolset. It applies the rules, ends the toolset with its run, and protects the run from hanging or
// panicking tools.
type guard struct {
	tools.ToolSet
	name     string // names the toolset in warnings
	run      *run
	rules    rules
	approved bool // the tools need no permission

	mu          sync.Mutex
	started     bool
	startFailed bool // the toolset did not start, and Start has reported that
	listFailed  bool // the toolset has not listed its tools, and Tools has reported that
}

// isStarted reports whether the toolset has started. A toolset that has not started must not be called, because it may hold
// a lock forever.
func (g *guard) isStarted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.started
}

// usable reports whether the toolset has started or may still start.
func (g *guard) usable() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.startFailed
}

// errNoAnswer means that a call of a tool or toolset did not return in time.
var errNoAnswer = errors.New("it did not answer in time")

// callWithTimeout calls f and returns its result. If ctx ends or the limit passes before f returns, callWithTimeout abandons the
// call and returns the cause, which is errNoAnswer for the limit. It also returns an error if f panics.
func callWithTimeout[T any](ctx context.Context, r *run, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		var res result
		defer func() {
			if p := recover(); p != nil {
				r.log.ErrorContext(ctx, "tool panicked", "panic", p, "stack", string(debug.Stack()))
				res.err = errors.New("it panicked")
			}
			done <- res
		}()
		res.v, res.err = f(ctx)
	}()
	select {
	case res := <-done:
		if res.err != nil && ctx.Err() != nil {
			res.err = context.Cause(ctx)
		}
		return res.v, res.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

// Start implements tools.ToolSet.
func (g *guard) Start(ctx context.Context) error {
	if !g.usable() {
		return nil // the start has failed before, and is not repeated; the toolset has no tools
	}
	_, err := callWithTimeout(ctx, g.run, g.run.startTimeout(), func(ctx context.Context) (struct{}, error) { return struct{}{}, g.ToolSet.Start(ctx) })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started, g.startFailed = err == nil, err != nil
	if err != nil {
		return g.run.hide(fmt.Errorf("%s did not start, so its tools are missing: %w", g.name, err))
	}
	return nil
}

// SetElicitationHandler implements tools.ToolSet.
func (g *guard) SetElicitationHandler(h tools.ElicitationHandler) {
	if g.usable() {
		g.ToolSet.SetElicitationHandler(h)
	}
}

// SetOAuthSuccessHandler implements tools.ToolSet.
func (g *guard) SetOAuthSuccessHandler(h func()) {
	if g.usable() {
		g.ToolSet.SetOAuthSuccessHandler(h)
	}
}

// SetManagedOAuth implements tools.ToolSet.
func (g *guard) SetManagedOAuth(managed bool) {
	if g.usable() {
		g.ToolSet.SetManagedOAuth(managed)
	}
}

// Stop implements tools.ToolSet.
func (g *guard) Stop(ctx context.Context) error {
	if !g.isStarted() {
		return nil
	}
	_, err := callWithTimeout(ctx, g.run, endGrace, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.ToolSet.Stop(ctx) })
	return g.run.hide(err)
}

// Instructions implements tools.ToolSet. It returns "" if the toolset panics.
func (g *guard) Instructions() (s string) {
	if !g.isStarted() {
		return ""
	}
	defer func() {
		if recover() != nil {
			s = ""
		}
	}()
	return g.ToolSet.Instructions()
}

// Tools implements tools.ToolSet. It returns only the first error; after later errors, it returns no tools.
func (g *guard) Tools(ctx context.Context) ([]tools.Tool, error) {
	if !g.isStarted() {
		return nil, nil
	}
	all, err := callWithTimeout(ctx, g.run, g.run.startTimeout(), g.ToolSet.Tools)
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.listFailed || g.run.isOver() {
			return nil, nil
		}
		g.listFailed = true
		return nil, g.run.hide(fmt.Errorf("%s did not list its tools, so they are missing: %w", g.name, err))
	}
	wrapped := make([]tools.Tool, len(all))
	for i, t := range all {
		inner := t.Handler
		wrapped[i] = t
		wrapped[i].Handler = func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
			return g.call(ctx, &t, inner, c), nil
		}
	}
	return wrapped, nil
}

// call runs the tool if the rules allow it. It always returns a result for the model, even after an error.
func (g *guard) call(ctx context.Context, t *tools.Tool, handler tools.ToolHandler, c tools.ToolCall) *tools.ToolCallResult {
	r := g.run
	if why := r.whyEnded(); why != nil {
		return tools.ResultError(fmt.Sprintf("The tool was not used: %v.", why))
	}
	if why := g.rules.refusal(t, c.Function.Arguments, g.approved); why != "" {
		return tools.ResultError(fmt.Sprintf("The tool %q %s.", t.Name, why))
	}
	if c.Function.Arguments == "" {
		c.Function.Arguments = "{}"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.quit:
			cancel(r.whyEnded())
		case <-ctx.Done():
		}
	}()
	res, err := callWithTimeout(ctx, r, r.settings.ToolTimeout, func(ctx context.Context) (*tools.ToolCallResult, error) { return handler(ctx, c) })
	switch {
	case errors.Is(err, errNoAnswer):
		return tools.ResultError(fmt.Sprintf("The tool %q did not answer within %s and was given up.", t.Name, r.settings.ToolTimeout))
	case err != nil:
		return tools.ResultError(r.clip(fmt.Sprintf("The tool %q failed: %v", t.Name, err)))
	case res == nil:
		return tools.ResultSuccess("")
	}
	out := *res
	out.Output = r.clip(res.Output)
	return &out
}

// clip returns a tool's text for the model, without secrets. It cuts a text that is longer than MaxToolOutput, and adds an
// ellipsis.
func (r *run) clip(text string) string {
	text = r.secrets.hide(text)
	if n := r.settings.MaxToolOutput; len(text) > n {
		text = strings.ToValidUTF8(text[:n], "") + "…"
	}
	return driver.CleanText([]byte(text))
}
