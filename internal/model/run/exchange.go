//go:build cgo

package run

import "sync"

// exchange is one request to a model, with all attempts of the client to send it. modelTransport fills in what it learns.
type exchange struct {
	edits   bodyEdits
	onUsage func() // called after each report of usage; nil: not called

	mu        sync.Mutex
	err       error   // the error of the last attempt, more precise than the client's error; nil if it did not fail
	usage     *tokens // the usage in the answer, kept because the library does not read all of it; nil if unknown
	truncated bool    // the answer ended at the limit of tokens
}

type exchangeKey struct{}

// setError records the error of an attempt and returns it. Each call replaces the recorded error, so that the error of the
// last attempt counts. A nil error means that the attempt succeeded.
func (e *exchange) setError(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	return err
}

// state returns a copy of the usage, which is nil if the usage is unknown, and the recorded error.
func (e *exchange) state() (usage *tokens, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.usage != nil {
		usage = new(*e.usage)
	}
	return usage, e.err
}

// setTruncated records that the answer ended at the limit of tokens, if truncated is true.
func (e *exchange) setTruncated(truncated bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.truncated = e.truncated || truncated
}

func (e *exchange) isTruncated() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.truncated
}

// mergeUsage updates the usage of the exchange. The figures in an event are totals since the beginning of the answer, so
// mergeUsage keeps the largest. If the event lists iterations, their sum replaces the usage instead, see replaceUsage.
func (e *exchange) mergeUsage(u messagesUsage) {
	if len(u.Iterations) > 0 {
		var sum tokens
		for _, iteration := range u.Iterations {
			for _, f := range []struct{ total, reported *int64 }{
				{&sum.input, iteration.Input}, {&sum.output, iteration.Output}, {&sum.cached, iteration.Cached}, {&sum.written, iteration.Written},
			} {
				if f.reported != nil {
					*f.total += max(0, *f.reported)
				}
			}
		}
		e.replaceUsage(sum)
		return
	}
	e.updateUsage(func(t *tokens) {
		for _, f := range []struct{ total, reported *int64 }{
			{&t.input, u.Input}, {&t.output, u.Output}, {&t.cached, u.Cached}, {&t.written, u.Written},
		} {
			if f.reported != nil {
				*f.total = max(*f.total, *f.reported)
			}
		}
	})
}

// replaceUsage sets the usage of the exchange to the totals in an event, unless they are zero or an earlier event has reported
// more output. The last event is the most precise: some servers count the prompt again for it.
func (e *exchange) replaceUsage(u tokens) {
	u = tokens{max(0, u.input), max(0, u.output), max(0, u.cached), max(0, u.written)}
	e.updateUsage(func(t *tokens) {
		if u.inputTotal()+u.output > 0 && u.output >= t.output {
			*t = u
		}
	})
}

// updateUsage calls change with the usage of the exchange, and then onUsage.
func (e *exchange) updateUsage(change func(*tokens)) {
	defer func() {
		if e.onUsage != nil {
			e.onUsage()
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.usage == nil {
		e.usage = &tokens{}
	}
	change(e.usage)
}
