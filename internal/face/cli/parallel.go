package cli

import (
	"context"
	"fmt"
)

// parallelAgents is the largest number of agents for which a command makes calls at the same time.
const parallelAgents = 8

// forEachAgent makes a call for each of the agents, several at a time. It passes the results to show in the order of the names. show prints
// the result for names[i] and returns its error, if there is one. forEachAgent returns the first of these errors, and prints the others on
// standard error unless ctx is done. label, for example "stopping", is for the progress line.
func forEachAgent[R any](ctx context.Context, s *session, label string, names []string, call func(ctx context.Context, name string) (R, error), show func(i int, resp R, err error) error) (firstErr error) {
	type result struct {
		resp R
		err  error
	}
	collect := func() error {
		results := make([]chan result, len(names))
		slots := make(chan struct{}, parallelAgents)
		for i, name := range names {
			results[i] = make(chan result, 1)
			go func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				resp, err := call(ctx, name)
				results[i] <- result{resp, err}
			}()
		}
		for i := range names {
			r := <-results[i]
			switch err := show(i, r.resp, r.err); {
			case err == nil:
			case firstErr == nil:
				firstErr = err
			case ctx.Err() == nil: // the first error is reported at the end
				s.printError(s.explain(ctx, err, s.target))
			}
		}
		return firstErr
	}
	if len(names) == 1 {
		return s.withEvents(ctx, names[0], label+" "+names[0], collect)
	}
	p := s.startProgress(fmt.Sprintf("%s %d agents", label, len(names)), s.deps.Now())
	defer p.stop()
	return collect()
}
