//go:build cgo

package run

import (
	"sync"
)

// exchange is one request to a model, as modelTransport sees it.
type exchange struct {
	edits   bodyEdits
	onUsage func() // called when the usage changes; nil: not called

	mu        sync.Mutex
	err       error   // the error of the last attempt, more precise than the client's error; nil if it did not fail
	usage     *tokens // the usage in the answer, since the library does not read all of it; nil if unknown
	truncated bool    // the answer ended at the limit of tokens
}

type exchangeKey struct{}

// setError records the error of an attempt and returns it. Each call replaces the recorded error, so that the error of the
// last attempt counts. A nil error means that the attempt succeeded.
func (x *exchange) setError(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
	return err
}

// state returns a copy of the usage, which is nil if the usage is unknown, and the recorded error.
func (x *exchange) state() (usage *tokens, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.usage != nil {
		usage = new(*x.usage)
	}
	return usage, x.err
}

// setTruncated records that the answer ended at the limit of tokens, if cut is true.
func (x *exchange) setTruncated(cut bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.truncated = x.truncated || cut
}

func (x *exchange) isTruncated() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.truncated
}

// mergeUsage updates the usage of the exchange. The figures in an event are totals since the beginning of the answer, so
// mergeUsage keeps the largest.
func (x *exchange) mergeUsage(u messagesUsage) {
	if len(u.Steps) > 0 {
		var sum tokens
		for _, step := range u.Steps {
			for _, f := range []struct{ to, said *int64 }{
				{&sum.input, step.Input}, {&sum.output, step.Output}, {&sum.cached, step.Cached}, {&sum.written, step.Written},
			} {
				if f.said != nil {
					*f.to += max(0, *f.said)
				}
			}
		}
		x.replaceUsage(sum)
		return
	}
	x.updateUsage(func(t *tokens) {
		for _, f := range []struct{ to, said *int64 }{
			{&t.input, u.Input}, {&t.output, u.Output}, {&t.cached, u.Cached}, {&t.written, u.Written},
		} {
			if f.said != nil {
				*f.to = max(*f.to, *f.said)
			}
		}
	})
}

// replaceUsage sets the usage of the exchange to the totals in an event, unless an earlier event has reported more output.
// The last event is the most precise: some servers count the prompt again for it.
func (x *exchange) replaceUsage(u tokens) {
	u = tokens{max(0, u.input), max(0, u.output), max(0, u.cached), max(0, u.written)}
	x.updateUsage(func(t *tokens) {
		if u.inputTotal()+u.output > 0 && u.output >= t.output {
			*t = u
		}
	})
}

// updateUsage calls change with the usage of the exchange.
func (x *exchange) updateUsage(change func(*tokens)) {
	defer func() {
		if x.onUsage != nil {
			x.onUsage()
		}
	}()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.usage == nil {
		x.usage = &tokens{}
	}
	change(x.usage)
}
