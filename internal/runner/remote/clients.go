package remote

import "sync"

// Clients holds one Client for each runner, because a Client remembers its handshake. The zero value is ready to use.
type Clients struct {
	mu    sync.Mutex
	byURL map[string]*Client
}

// Lookup returns the client for the runner at the URL, or nil if there is none.
func (cs *Clients) Lookup(url string) *Client {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byURL[url]
}

// Get returns the client for the runner at c.URL. It creates one if there is none; an existing client keeps its configuration.
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
