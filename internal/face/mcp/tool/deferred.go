package tool

import (
	"bytes"
	"context"
	"slices"

	"fleet/internal/face/wire"
)

// DeferredResult keeps the result of one call out of the response while mcp-go writes it. A response contains the result
// twice, as structured content and as text, and mcp-go would check and copy both at every level of nesting. So mcp-go
// gets a placeholder instead, and the transport puts the result into the response that mcp-go has written.
type DeferredResult struct {
	result []byte
	text   []byte // the result as a JSON string; nil if it must still be encoded
	task   []byte // the members of the task that answers the call; nil if a result answers it
}

type deferredKey struct{}

// noContent is the member that mcp-go writes for a result without content. It cannot be a part of a string, because a string
// has no unescaped quotes.
var noContent = []byte(`"content":[]`)

// placeholder takes the place of a result.
const placeholder = "the result of the call"

var quotedPlaceholder = []byte(`"` + placeholder + `"`)

// WithDeferredResult returns a context for one call, whose response must be passed through Append.
func WithDeferredResult(ctx context.Context) (context.Context, *DeferredResult) {
	d := &DeferredResult{}
	return context.WithValue(ctx, deferredKey{}, d), d
}

// DeferredResultOf returns the DeferredResult of the context's call; nil if it has none.
func DeferredResultOf(ctx context.Context) *DeferredResult {
	d, _ := ctx.Value(deferredKey{}).(*DeferredResult)
	return d
}

// SetTask makes the response a task with these members, which are a JSON object. mcp-go gets a result without content.
func (d *DeferredResult) SetTask(members []byte) { d.result, d.task = nil, bytes.TrimSpace(members) }

// Append appends the response to b. written is the response as mcp-go has written it. The result replaces the last two placeholders:
// first as text, and then as structured content. An earlier placeholder can be the id. A task replaces the empty content. If d is nil or
// has neither, Append appends written unchanged.
func (d *DeferredResult) Append(b, written []byte) []byte {
	if d != nil && d.task != nil {
		return append(b, bytes.Replace(written, noContent, d.task[1:len(d.task)-1], 1)...)
	}
	if d == nil || d.result == nil {
		return append(b, written...)
	}
	structured := bytes.LastIndex(written, quotedPlaceholder)
	text := bytes.LastIndex(written[:max(0, structured)], quotedPlaceholder)
	if text < 0 { // not the response to the call
		return append(b, written...)
	}
	b = slices.Grow(b, len(written)+len(d.result)*5/2) // in the text each quote has a backslash
	b = append(b, written[:text]...)
	if d.text != nil {
		b = append(b, d.text...)
	} else {
		b = wire.AppendString(b, string(d.result))
	}
	b = append(b, written[text+len(quotedPlaceholder):structured]...)
	b = append(b, d.result...)
	return append(b, written[structured+len(quotedPlaceholder):]...)
}
