package tool

import (
	"context"

	"google.golang.org/grpc"
)

// Query selects the events to read.
type Query struct {
	Cursor string // the events after it are read; "now" means the end of the log
	Agent  string // name of the agent whose events are read
	Follow bool   // wait for new events at the end of the log
}

// Watch reads events in batches and passes the texts of each batch to the function each, with the cursor after the batch. The cursor is ""
// if the batch has none. Watch returns nil at the end of the log. If the query follows, Watch returns when ctx ends or a call fails.
type Watch func(ctx context.Context, q Query, each func(cursor string, texts []string) error) error

// NewWatch returns a Watch over the method that streams events.
func NewWatch[R any, PQ any, PR message[R]](
	call func(context.Context, PQ, ...grpc.CallOption) (grpc.ServerStreamingClient[R], error),
	request func(Query) PQ, cursor func(PR) string, texts func(PR) []string,
) Watch {
	return func(ctx context.Context, q Query, each func(string, []string) error) error {
		return receive(ctx, call, request(q), func(m PR) error { return each(cursor(m), texts(m)) })
	}
}

// follow sends the events of an agent as progress until stop is called. Before stop returns, it sends the events that were logged before
// it was called. If events cannot be read, follow sends less.
func follow(ctx context.Context, p *progress, watch Watch, agent string) (stop func()) {
	if agent == "" { // the request is invalid, and would follow the whole fleet
		return func() {}
	}
	position := "now"
	handle := func(cursor string, texts []string) error {
		if err := p.send(texts); err != nil {
			return err
		}
		if cursor != "" {
			position = cursor
		}
		return nil
	}
	// The end of the log must be known before the call begins, because a stream that is opened at the same time would
	// start somewhere in the middle of the call. Errors are ignored, since a call without progress is better than none.
	if err := watch(ctx, Query{Cursor: position, Agent: agent}, handle); err != nil {
		return func() {}
	}
	followCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = watch(followCtx, Query{Cursor: position, Agent: agent, Follow: true}, handle)
	}()
	return func() {
		cancel()
		<-done
		// The log holds the call's own events by now, but the stream may not have delivered them yet. If the agent
		// keeps working, the log does not end; do not wait for that.
		for range 10 {
			before := p.sentCount()
			if position == "now" || watch(ctx, Query{Cursor: position, Agent: agent}, handle) != nil || p.sentCount() == before {
				return
			}
		}
	}
}
