package coder_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"sync"
	"time"
)

// replayClock is the clock of a replay. It is one second ahead of the latest time in the answers that have been replayed so far.
type replayClock struct {
	mu     sync.Mutex
	latest time.Time
}

var timePattern = regexp.MustCompile(`"(?:now|created_at|updated_at|started_at|completed_at|ready_at|last_connected_at)": ?"(2[^"]+)"`)

func (c *replayClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest.Add(time.Second)
}

func (c *replayClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = c.latest.Add(d)
}

// observe returns a transport that advances the clock to the times in the answers of next.
func (c *replayClock) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(b))
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, found := range timePattern.FindAllSubmatch(b, -1) {
			if at, err := time.Parse(time.RFC3339Nano, string(found[1])); err == nil && at.After(c.latest) {
				c.latest = at
			}
		}
		return res, nil
	})
}
