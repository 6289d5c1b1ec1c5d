package admission

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"fleet/internal/fleet"
)

// refusalWindow is the least time between two log messages about refused requests: per bucket for Rates, and in total for Slots.
const refusalWindow = time.Minute

// Rates limits the requests per second of each principal, and those about each project. A principal has a token bucket, which holds the
// requests of one second. All calls of the principal share this bucket, whatever their face and token. The calls of an agent count as
// calls of its owner.
//
// Several servers divide each limit evenly. Until the first call of SetServers, a new server allows the whole limit.
type Rates struct {
	current atomic.Pointer[rateSet]
	groups  func(ctx context.Context, principal string) ([]string, error) // see NewRates
	log     *slog.Logger
	now     func() time.Time
	servers atomic.Int64 // see SetServers
}

// rateSet has the limits of requests, and the buckets for them.
type rateSet struct {
	limits         fleet.Limits
	hasGroupLimits bool     // a group has a limit of requests
	principals     sync.Map // of *bucket, by name of the principal
	projects       sync.Map // of *projectRate, by name of the project
}

// bucket has the requests that are allowed at the moment.
type bucket struct {
	*rate.Limiter
	limit    atomic.Int64 // requests a second, on all servers
	loggedAt atomic.Int64 // when a refusal was logged, in Unix seconds
}

// NewRates returns the limits of one server; now may be nil. If limits has no request limits, all requests are allowed. groups
// returns the last known groups of a principal, because a call of an agent does not contain the groups of its owner.
func NewRates(limits fleet.Limits, groups func(ctx context.Context, principal string) ([]string, error), log *slog.Logger, now func() time.Time) *Rates {
	if now == nil {
		now = time.Now
	}
	r := &Rates{groups: groups, log: log, now: now}
	r.servers.Store(1)
	r.SetLimits(limits)
	return r
}

// SetLimits replaces the limits. Every principal and project then has a full bucket.
func (r *Rates) SetLimits(limits fleet.Limits) {
	if r == nil {
		return
	}
	s := &rateSet{limits: limits}
	for _, l := range limits.Groups {
		s.hasGroupLimits = s.hasGroupLimits || l.RequestsPerSecond != nil
	}
	r.current.Store(s)
}

// SetServers gives this server its part of the limits. servers is the number of servers, this one included. SetServers also removes the
// buckets of principals that have not called lately.
func (r *Rates) SetServers(servers int) {
	r.servers.Store(int64(max(servers, 1)))
	now, set := r.now(), r.current.Load()
	set.principals.Range(func(name, v any) bool {
		b := v.(*bucket) //nolint:forcetypeassert // see principals
		if b.isFull(now) {
			set.principals.Delete(name)
			return true
		}
		b.setLimit(now, b.limit.Load(), r.serverShare(b.limit.Load()))
		return true
	})
	set.projects.Range(func(_, v any) bool {
		x := v.(*projectRate) //nolint:forcetypeassert // see projects
		x.update(now, r.serverShare(x.limit))
		return true
	})
}

// serverShare returns this server's part of a limit for all servers together, in requests per second.
func (r *Rates) serverShare(limit int64) rate.Limit {
	return rate.Limit(float64(limit) / float64(r.servers.Load()))
}

// take counts a request of the principal. It returns LIMIT_REACHED if there were too many.
func (r *Rates) take(ctx context.Context, p fleet.Principal) error {
	if r == nil {
		return nil
	}
	set := r.current.Load()
	v, ok := set.principals.Load(p.Name)
	if !ok || set.hasGroupLimits && p.AgentUID == "" {
		groups := p.Groups
		if p.AgentUID != "" && set.hasGroupLimits {
			var err error
			if groups, err = r.groups(ctx, p.Name); err != nil {
				return err
			}
		}
		limit := int64(set.limits.For(p.Name, groups).RequestsPerSecond)
		if limit == 0 {
			return nil
		}
		if !ok {
			v, _ = set.principals.LoadOrStore(p.Name, newBucket(limit, r.serverShare(limit)))
		}
		if b := v.(*bucket); b.limit.Load() != limit { //nolint:forcetypeassert // see principals
			b.setLimit(r.now(), limit, r.serverShare(limit))
		}
	}
	b := v.(*bucket) //nolint:forcetypeassert // see principals
	if wait, refused := r.takeFrom(ctx, b, slog.String("principal", p.Name)); refused {
		return fleet.TooManyRequests(int(b.limit.Load()), wait)
	}
	return nil
}

// takeFrom takes a request from the bucket. If the bucket is empty, takeFrom logs that at most once per refusalWindow, and returns how
// long it takes until the bucket has a request again. The attributes of the log message say whose bucket it is.
func (r *Rates) takeFrom(ctx context.Context, b *bucket, attrs ...slog.Attr) (wait time.Duration, refused bool) {
	now := r.now()
	if b.AllowN(now, 1) {
		return 0, false
	}
	if last := b.loggedAt.Load(); now.Unix()-last >= int64(refusalWindow/time.Second) && b.loggedAt.CompareAndSwap(last, now.Unix()) {
		r.log.LogAttrs(ctx, slog.LevelWarn, "rate limit exceeded, refusing requests", append(attrs, slog.Int64("requests_per_second", b.limit.Load()))...)
	}
	next := b.ReserveN(now, 1)
	wait = next.DelayFrom(now)
	next.CancelAt(now)
	return max(wait, time.Millisecond), true
}

// newBucket returns a full bucket. limit is the limit of all servers together, and serverRate is this server's part of it,
// both in requests per second.
func newBucket(limit int64, serverRate rate.Limit) *bucket {
	b := &bucket{Limiter: rate.NewLimiter(serverRate, burst(serverRate))}
	b.limit.Store(limit)
	return b
}

// isFull reports whether the bucket is as full as a new one.
func (b *bucket) isFull(now time.Time) bool { return b.TokensAt(now) >= float64(b.Burst()) }

// setLimit changes the limit of the bucket. The arguments are those of newBucket.
func (b *bucket) setLimit(now time.Time, limit int64, serverRate rate.Limit) {
	b.limit.Store(limit)
	b.SetLimitAt(now, serverRate)
	b.SetBurstAt(now, burst(serverRate))
}

// burst returns the size of the bucket: the requests of a second, and at least one.
func burst(serverRate rate.Limit) int { return max(int(serverRate), 1) }
