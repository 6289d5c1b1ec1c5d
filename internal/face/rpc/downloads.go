package rpc

import (
	"sync"
	"time"

	"fleet/internal/fleet"
)

// maxDownloads is how many downloads a principal may have open on a server. Each holds its content in memory, up to 64 MiB.
const maxDownloads = 8

// retryDownload is how long a principal with too many downloads should wait before it repeats a call.
const retryDownload = 2 * time.Second

// downloads counts the open downloads of each principal.
type downloads struct {
	mu     sync.Mutex
	counts map[string]int
}

// begin counts a download of the principal until the returned function is called, which also calls leave. If the principal
// has too many, begin calls leave and returns LIMIT_REACHED.
func (d *downloads) begin(principal string, leave func()) (func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.counts[principal]; n >= maxDownloads {
		leave()
		return nil, fleet.Errorf(fleet.ReasonLimitReached, "you have %d open downloads on this server, which is the limit: wait until one ends", n).
			AtLimit("downloads", int64(n), maxDownloads).After(retryDownload)
	}
	if d.counts == nil {
		d.counts = map[string]int{}
	}
	d.counts[principal]++
	return func() {
		leave()
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.counts[principal]--; d.counts[principal] == 0 {
			delete(d.counts, principal)
		}
	}, nil
}
