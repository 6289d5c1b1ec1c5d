package cli

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// parallelAgents limits for how many agents a command calls the server at the same time.
const parallelAgents = 8

// forAgents calls a function for each of the agents, several at a time, and then shows the results in the order of the names. It shows
// what happens meanwhile. doing labels the progress line. show returns the error of the result, if there is one. forAgents returns the
// first of these errors, and reports the others.
func forAgents[R any](ctx context.Context, s *session, doing string, names []string, call func(ctx context.Context, name string) R, show func(i int, result R) error) (first error) {
	collect := func() error {
		results := make([]chan R, len(names))
		slots := make(chan struct{}, parallelAgents)
		for i, name := range names {
			results[i] = make(chan R, 1)
			go func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				results[i] <- call(ctx, name)
			}()
		}
		for i := range names {
			switch err := show(i, <-results[i]); {
			case err == nil:
			case first == nil:
				first = err
			case ctx.Err() == nil: // the first error is reported at the end
				s.printError(s.explain(ctx, err, s.target))
			}
		}
		return nil
	}
	if len(names) == 1 {
		_ = s.withEvents(ctx, names[0], doing+" "+names[0], collect)
		return first
	}
	p := s.startProgress(fmt.Sprintf("%s %d agents", doing, len(names)), s.deps.Now())
	_ = collect()
	p.stop()
	return first
}

// requestIDOf returns the id that the flag --request-id has set, or "".
func requestIDOf(req proto.Message) string {
	m := req.ProtoReflect()
	return m.Get(fieldWithRole(m.Descriptor(), fleetv1.Shown_request_id)).String()
}

// checkSingle returns an error if the request has an id, but is for several agents.
func checkSingle(req proto.Message, names []string) error {
	if requestIDOf(req) != "" && len(names) > 1 {
		return usagef("--request-id works for one agent only: name one agent")
	}
	return nil
}
