package admission

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fleet/internal/fleet"
)

// projectRate limits the requests about one project. Each principal that sends such requests has a bucket with an equal part
// of the limit. So a principal with many requests does not keep out the others. The first principal begins with a full bucket.
// Others begin with one request each, so that many new principals do not exceed the limit by far.
type projectRate struct {
	limit int64 // requests a second, of all principals on all servers

	mu         sync.Mutex
	serverRate rate.Limit         // requests a second, of all principals on this server
	buckets    map[string]*bucket // by name of the principal
}

// takeForProject counts a request of the context's principal about the project. It returns LIMIT_REACHED if there were too many.
func (r *Rates) takeForProject(ctx context.Context, project string) error {
	set := r.current.Load()
	limit := int64(set.limits.Projects[project].RequestsPerSecond)
	if limit == 0 {
		return nil
	}
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	v, ok := set.projects.Load(project)
	if !ok {
		v, _ = set.projects.LoadOrStore(project, &projectRate{limit: limit, serverRate: r.serverShare(limit), buckets: map[string]*bucket{}})
	}
	x := v.(*projectRate) //nolint:forcetypeassert // see projects
	wait, refused := r.takeFrom(ctx, x.bucketOf(p.Name, r.now()), slog.String("principal", p.Name), slog.String("project", project))
	if refused {
		return fleet.TooManyRequestsIn(project, int(limit), wait)
	}
	return nil
}

// bucketOf returns the bucket of the principal. If it does not exist, bucketOf creates it and divides this server's requests again.
func (p *projectRate) bucketOf(principal string, now time.Time) *bucket {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.buckets[principal]
	if b == nil {
		b = newBucket(p.limit, p.serverRate/rate.Limit(len(p.buckets)+1))
		if len(p.buckets) > 0 {
			b.AllowN(now, b.Burst()-1)
		}
		p.buckets[principal] = b
		p.divide(now)
	}
	return b
}

// divide gives each principal an equal part of this server's requests. The caller holds p.mu.
func (p *projectRate) divide(now time.Time) {
	for _, b := range p.buckets {
		b.setLimit(now, p.limit, p.serverRate/rate.Limit(len(p.buckets)))
	}
}

// update sets the rate of this server. It forgets principals that have not called lately, and divides the rate among the others.
func (p *projectRate) update(now time.Time, serverRate rate.Limit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serverRate = serverRate
	maps.DeleteFunc(p.buckets, func(_ string, b *bucket) bool { return b.isFull(now) })
	p.divide(now)
}
