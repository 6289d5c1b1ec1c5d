package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pingTimeout is how long a client may take to answer a ping. Clients must answer promptly; one that does not is not
// asked again.
const pingTimeout = time.Second

// pings ask a client for a sign that it has taken what was sent before. The clients of TypeScript forget the progress
// of a call when they read it from a pipe together with the call's result: they handle a result at once, and a
// notification a moment later, when nobody listens any more. A ping between the two parts them. Over HTTP they read
// one event at a time. The revisions of the protocol without sessions have no requests of a server: see drain.
type pings struct {
	mu    sync.Mutex
	last  int
	wait  map[string]chan struct{} // what is asked, by the id as JSON
	ended chan struct{}            // closed when no answer can come any more
	over  bool
}

func newPings() *pings {
	return &pings{wait: map[string]chan struct{}{}, ended: make(chan struct{})}
}

// ping sends a ping and waits for its answer, for as long as one can come.
func (p *pings) ping(ctx context.Context, write func([]byte) error) {
	p.mu.Lock()
	p.last++
	id, answered := fmt.Sprintf(`"ping-%d"`, p.last), make(chan struct{})
	p.wait[id] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.wait, id)
	}()
	select {
	case <-p.ended:
		return
	default:
	}
	if write([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)) != nil {
		return
	}
	timeout := time.NewTimer(pingTimeout)
	defer timeout.Stop()
	select {
	case <-answered:
	case <-p.ended:
	case <-ctx.Done():
	case <-timeout.C:
		p.end()
	}
}

// pong takes the answer to the ping of the id.
func (p *pings) pong(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered, ok := p.wait[id]; ok {
		close(answered)
		delete(p.wait, id)
	}
}

// end ends what waits, and keeps anything from waiting again.
func (p *pings) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.over = true
		close(p.ended)
	}
}
