//go:build cgo

package cagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/permissions"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
)

// rules say which tools a run may use.
type rules struct {
	deny  *permissions.Checker
	allow *permissions.Checker // what is allowed by name
	only  bool                 // nothing else is
}

func newRules(doc *latest.PermissionsConfig, recipe *fleet.Recipe) rules {
	if doc == nil {
		doc = &latest.PermissionsConfig{}
	}
	check := func(allow, deny []string) *permissions.Checker {
		return permissions.NewChecker(&latest.PermissionsConfig{Allow: allow, Deny: deny})
	}
	r := rules{deny: check(nil, slices.Concat(doc.Deny, recipe.Deny)), allow: check(doc.Allow, nil)}
	if recipe.Allow != nil {
		r.allow, r.only = check(recipe.Allow, nil), true
	}
	return r
}

// refuses says why the tool may not be used; empty when it may. approved says that its kind needs no word.
func (r rules) refuses(t *tools.Tool, arguments string, approved bool) string {
	var args map[string]any
	_ = json.Unmarshal([]byte(arguments), &args) // what is no object matches by name only
	switch {
	case r.deny.CheckWithArgs(t.Name, args) == permissions.Deny:
		return "is denied by the agent's definition"
	case r.allow.CheckWithArgs(t.Name, args) == permissions.Allow:
		return ""
	case r.only:
		return "is not among the tools that the agent may use"
	case approved || t.Annotations.ReadOnlyHint:
		return ""
	}
	return "needs an approval, and there is nobody to ask: the agent's definition has to allow it (permissions.allow, in version \"3\" of definitions)"
}

// guard is a toolset that keeps the rules, ends with its run, and cannot hang or break the server.
type guard struct {
	tools.ToolSet
	what     string // it is, for warnings
	run      *run
	rules    rules
	approved bool

	mu      sync.Mutex
	started bool
	broken  bool // it did not start, and has said so
}

// works reports whether the toolset has started. What has not is left alone: it may hold a lock for ever.
func (g *guard) works() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.started
}

// usable reports whether the toolset may still start, or has.
func (g *guard) usable() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.broken
}

// errStuck is the error of a part of a tool that does not return.
var errStuck = errors.New("it did not answer in time")

// bounded calls f, for as long as the context and the limit let it. What goes on after that is left behind.
func bounded[T any](ctx context.Context, r *run, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errStuck)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		var res result
		defer func() {
			if p := recover(); p != nil {
				r.engine.config.Logger.ErrorContext(ctx, "a tool panicked", "panic", p, "stack", string(debug.Stack()))
				res.err = errors.New("it broke down")
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
	g.mu.Lock()
	broken := g.broken
	g.mu.Unlock()
	if broken {
		return nil // it has no tools, and is not waited for again
	}
	_, err := bounded(ctx, g.run, g.run.engine.startTimeout(), func(ctx context.Context) (struct{}, error) { return struct{}{}, g.ToolSet.Start(ctx) })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started, g.broken = err == nil, err != nil
	if err != nil {
		return g.run.hide(fmt.Errorf("%s did not start, and its tools are missing: %w", g.what, err))
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
	if !g.works() {
		return nil
	}
	_, err := bounded(ctx, g.run, endGrace, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.ToolSet.Stop(ctx) })
	return g.run.hide(err)
}

// Instructions implements tools.ToolSet.
func (g *guard) Instructions() (s string) {
	if !g.works() {
		return ""
	}
	defer func() {
		if recover() != nil {
			s = ""
		}
	}()
	return g.ToolSet.Instructions()
}

// Tools implements tools.ToolSet.
func (g *guard) Tools(ctx context.Context) ([]tools.Tool, error) {
	if !g.works() {
		return nil, nil
	}
	all, err := bounded(ctx, g.run, g.run.engine.startTimeout(), g.ToolSet.Tools)
	if err != nil && g.run.over() {
		return nil, nil
	}
	if err != nil {
		return nil, g.run.hide(err)
	}
	guarded := make([]tools.Tool, len(all))
	for i, t := range all {
		inner := t.Handler
		guarded[i] = t
		guarded[i].Handler = func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
			return g.call(ctx, &t, inner, c), nil
		}
	}
	return guarded, nil
}

// call runs the tool. Whatever comes of it, the model gets an answer.
func (g *guard) call(ctx context.Context, t *tools.Tool, handler tools.ToolHandler, c tools.ToolCall) *tools.ToolCallResult {
	r := g.run
	if r.over() {
		return tools.ResultError("The run has ended; the tool was not used.")
	}
	if why := g.rules.refuses(t, c.Function.Arguments, g.approved); why != "" {
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
			cancel(errors.New("the run has ended"))
		case <-ctx.Done():
		}
	}()
	res, err := bounded(ctx, r, r.engine.config.ToolTimeout, func(ctx context.Context) (*tools.ToolCallResult, error) { return handler(ctx, c) })
	switch {
	case errors.Is(err, errStuck):
		return tools.ResultError(fmt.Sprintf("The tool %q did not answer within %s and was given up.", t.Name, r.engine.config.ToolTimeout))
	case err != nil:
		return tools.ResultError(clean(clip(r.engine.secrets.hide(fmt.Sprintf("The tool %q failed: %v", t.Name, err)), r.engine.config.MaxToolOutput)))
	case res == nil:
		return tools.ResultSuccess("")
	}
	out := *res
	out.Output = clean(clip(r.engine.secrets.hide(res.Output), r.engine.config.MaxToolOutput))
	return &out
}
