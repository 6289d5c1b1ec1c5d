package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pingTimeout is how long a client may take to answer a ping. A client that does not answer in time gets no more pings.
const pingTimeout = time.Second

// pinger asks the client to confirm that it has processed what was sent before. The TypeScript clients lose the progress
// of a call if they read it from a pipe together with the call's result: they process the result at once and the
// notification a moment later, when nothing listens any more. A ping between the two separates them. Over HTTP these
// clients read one event at a time. In the protocol revisions without sessions a server cannot send requests: see
// drain.
type pinger struct {
	mu      sync.Mutex
	lastID  int
	pending map[string]chan struct{} // open pings, by their id as JSON
	ended   chan struct{}            // closed when no answer can come any more
	close   func()                   // ends all waiting pings, and prevents new ones
}

func newPinger() *pinger {
	p := &pinger{pending: map[string]chan struct{}{}, ended: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.ended) })
	return p
}

// ping sends a ping and waits for the answer, at most pingTimeout. It sends nothing after close.
func (p *pinger) ping(ctx context.Context, write func([]byte) error) {
	p.mu.Lock()
	p.lastID++
	id, answered := fmt.Sprintf(`"ping-%d"`, p.lastID), make(chan struct{})
	p.pending[id] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pending, id)
	}()
	select {
	case <-p.ended:
		return
	default:
	}
	if write([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)) != nil {
		return
	}
	select {
	case <-answered:
	case <-p.ended:
	case <-ctx.Done():
	case <-time.After(pingTimeout):
		p.close()
	}
}

// pong ends the wait for the answer to the ping with the id.
func (p *pinger) pong(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered, ok := p.pending[id]; ok {
		close(answered)
		delete(p.pending, id)
	}
}
