package providers

import (
	"sync"
	"time"

	"fleet/internal/fleet"
)

// limits restricts how many requests each principal may have under way and how many it may begin in a minute. It counts
// only the requests of this process. Several servers divide the limits evenly, so that together they do not allow more,
// except that each allows one.
type limits struct {
	concurrent, perMinute int
	now                   func() time.Time

	mu      sync.Mutex
	servers int               // how many servers share the limits
	used    map[string]*usage // by principal
}

type usage struct {
	running int
	begun   []time.Time // during the last minute, oldest first
}

func newLimits(concurrent, perMinute int, now func() time.Time) *limits {
	return &limits{concurrent: concurrent, perMinute: perMinute, now: now, servers: 1, used: map[string]*usage{}}
}

// share sets how many servers share the limits.
func (l *limits) share(servers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = max(servers, 1)
}

// enter counts a request of the principal and returns a function to call at the end of the request. It returns
// LIMIT_REACHED if the principal has too many requests.
func (l *limits) enter(principal string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.forget(now)
	u := l.used[principal]
	if u == nil {
		u = &usage{}
		l.used[principal] = u
	}
	if most := max(l.concurrent/l.servers, 1); u.running >= most {
		return nil, fleet.Errorf(fleet.ReasonLimitReached, "you have %d requests to agents under way, and the limit is %d: wait until a request has ended",
			u.running, most).AtLimit("concurrent requests", int64(u.running), int64(most)).After(fleet.BusyRetry)
	}
	if most := max(l.perMinute/l.servers, 1); len(u.begun) >= most {
		return nil, fleet.Errorf(fleet.ReasonLimitReached, "you have begun %d requests to agents in the last minute, and the limit is %d: try again later",
			len(u.begun), most).AtLimit("requests per minute", int64(len(u.begun)), int64(most)).After(u.begun[0].Add(time.Minute).Sub(now))
	}
	u.running++
	u.begun = append(u.begun, now)
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.running--
	}), nil
}

// forget removes the start times that are a minute old or older. It then removes principals that have no start time and
// no request under way.
func (l *limits) forget(now time.Time) {
	for name, u := range l.used {
		for len(u.begun) > 0 && !u.begun[0].Add(time.Minute).After(now) {
			u.begun = u.begun[1:]
		}
		if u.running == 0 && len(u.begun) == 0 {
			delete(l.used, name)
		}
	}
}
