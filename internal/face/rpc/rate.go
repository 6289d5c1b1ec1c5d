package rpc

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"fleet/internal/fleet"
)

// refusalWindow is the least time between two log messages about refused requests of the same principal.
const refusalWindow = time.Minute

// Rates limits the requests per second of each principal, and those about each project. A principal has a token bucket, which holds the requests of
// one second. All calls of the principal share this bucket, whatever their face and token. The calls of an agent count
// as calls of its owner.
//
// Several servers divide a limit evenly: each allows its part, so that together they never allow more than the limit. A
// principal that calls only one server gets only the part of that server.
type Rates struct {
	limits   fleet.Limits
	ofGroups bool                                                          // a group has a limit of requests
	groups   func(ctx context.Context, principal string) ([]string, error) // see NewRates
	log      *slog.Logger
	now      func() time.Time
	servers  atomic.Int64 // the number of servers that share the limits

	buckets  sync.Map // of *bucket, by name of the principal
	projects sync.Map // of *projectRate, by name of the project
}

// bucket is the bucket of one principal.
type bucket struct {
	*rate.Limiter
	most   atomic.Int64 // requests a second, on all servers
	logged atomic.Int64 // when a refusal was logged, in Unix seconds
}

// NewRates returns the limits of one server; now may be nil. Limits without requests limit nothing. groups returns the last
// known groups of a principal, because a call of an agent does not contain the groups of its owner.
func NewRates(limits fleet.Limits, groups func(ctx context.Context, principal string) ([]string, error), log *slog.Logger, now func() time.Time) *Rates {
	if now == nil {
		now = time.Now
	}
	r := &Rates{limits: limits, groups: groups, log: log, now: now}
	for _, l := range limits.Groups {
		r.ofGroups = r.ofGroups || l.RequestsPerSecond != nil
	}
	r.servers.Store(1)
	return r
}

// Share sets how many servers share the limits. It removes the buckets of principals that have not called lately.
func (r *Rates) Share(servers int) {
	n, now := int64(max(servers, 1)), r.now()
	changed := r.servers.Swap(n) != n
	r.buckets.Range(func(name, v any) bool {
		b := v.(*bucket) //nolint:forcetypeassert // see buckets
		if changed {
			b.set(now, b.most.Load(), n)
		}
		if b.full(now) {
			r.buckets.Delete(name)
		}
		return true
	})
	r.projects.Range(func(_, v any) bool {
		v.(*projectRate).update(now, n) //nolint:forcetypeassert // see projects
		return true
	})
}

// take counts a request of the principal. It returns LIMIT_REACHED if there were too many.
func (r *Rates) take(ctx context.Context, p fleet.Principal) error {
	if r == nil {
		return nil
	}
	v, ok := r.buckets.Load(p.Name)
	if !ok || r.ofGroups && p.AgentUID == "" {
		groups := p.Groups
		if p.AgentUID != "" && r.ofGroups {
			var err error
			if groups, err = r.groups(ctx, p.Name); err != nil {
				return err
			}
		}
		most := int64(r.limits.For(p.Name, groups).RequestsPerSecond)
		if most == 0 {
			return nil
		}
		if !ok {
			v, _ = r.buckets.LoadOrStore(p.Name, newBucket(most, r.servers.Load()))
		}
		if b := v.(*bucket); b.most.Load() != most { //nolint:forcetypeassert // see buckets
			b.set(r.now(), most, r.servers.Load())
		}
	}
	b := v.(*bucket) //nolint:forcetypeassert // see buckets
	if wait, refused := r.use(ctx, b, slog.String("principal", p.Name)); refused {
		return fleet.TooManyRequests(int(b.most.Load()), wait)
	}
	return nil
}

// use takes a request from the bucket. If the bucket is empty, use logs that, and returns how long it takes until the bucket has
// a request again. The attributes of the log message say whose bucket it is.
func (r *Rates) use(ctx context.Context, b *bucket, what ...slog.Attr) (wait time.Duration, refused bool) {
	now := r.now()
	if b.AllowN(now, 1) {
		return 0, false
	}
	if last := b.logged.Load(); now.Unix()-last >= int64(refusalWindow/time.Second) && b.logged.CompareAndSwap(last, now.Unix()) {
		r.log.LogAttrs(ctx, slog.LevelWarn, "rate limit exceeded, refusing requests", append(what, slog.Int64("requests_per_second", b.most.Load()))...)
	}
	next := b.ReserveN(now, 1)
	wait = next.DelayFrom(now)
	next.CancelAt(now)
	return max(wait, time.Millisecond), true
}

func newBucket(most, servers int64) *bucket {
	per := part(most, servers)
	b := &bucket{Limiter: rate.NewLimiter(per, burst(per))}
	b.most.Store(most)
	return b
}

// full reports whether the bucket is like a new one.
func (b *bucket) full(now time.Time) bool { return b.TokensAt(now) >= float64(b.Burst()) }

// set changes the limit of the bucket. most is the limit of all servers together, in requests per second.
func (b *bucket) set(now time.Time, most, servers int64) {
	per := part(most, servers)
	b.most.Store(most)
	b.SetLimitAt(now, per)
	b.SetBurstAt(now, burst(per))
}

// part returns the requests per second that one of n servers allows.
func part(most, n int64) rate.Limit { return rate.Limit(float64(most) / float64(n)) }

// burst returns the size of the bucket: the requests of a second, and at least one.
func burst(per rate.Limit) int { return max(int(per), 1) }
