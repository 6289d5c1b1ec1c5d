package remote

import "sync"

// Clients has one Client for each runner, which remembers its handshake. The zero value works.
type Clients struct {
	mu    sync.Mutex
	byURL map[string]*Client
}

// Get returns the client of the runner at c.URL, and makes it when there is none yet.
func (cs *Clients) Get(c ClientConfig) *Client {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	client := cs.byURL[c.URL]
	if client == nil {
		if cs.byURL == nil {
			cs.byURL = map[string]*Client{}
		}
		client = NewClient(c)
		cs.byURL[c.URL] = client
	}
	return client
}
