package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
)

// leases are the leases that one owner holds. One statement renews all of them.
type leases struct {
	store fleet.Store
	owner string
	ttl   time.Duration
	log   *slog.Logger
	// onRenewal is called with the result of each renewal.
	onRenewal func(error)

	mu   sync.Mutex
	held map[string]*heldLease // by key

	renewals, failures, lost atomic.Int64 // renewed leases, failed statements, and lost leases since the start
}

// heldLease is a lease that this process holds. Its context ends when the lease is lost, or may be lost.
type heldLease struct {
	lease  fleet.Lease
	cancel context.CancelFunc
	expiry *time.Timer // cancels the context if the lease is not renewed in time
	lost   bool
}

func newLeases(store fleet.Store, owner string, ttl time.Duration, log *slog.Logger, onRenewal func(error)) *leases {
	return &leases{store: store, owner: owner, ttl: ttl, log: log, onRenewal: onRenewal, held: map[string]*heldLease{}}
}

// hold takes the lease on the key and keeps it until release is called. leaseCtx carries the lease, so that no write with leaseCtx
// succeeds after another owner has taken the lease. leaseCtx ends when the lease is lost. If another owner has the lease, ok is
// false and err is nil.
func (l *leases) hold(ctx context.Context, key string) (leaseCtx context.Context, release func(), ok bool, err error) {
	requestedAt := time.Now() // the lease ends ttl after this time or later
	epoch, err := l.store.AcquireLease(ctx, key, l.owner, l.ttl)
	if err != nil || epoch == 0 {
		return nil, nil, false, err
	}
	h := &heldLease{lease: fleet.Lease{Key: key, Epoch: epoch}}
	leaseCtx, h.cancel = context.WithCancel(fleet.WithLease(ctx, h.lease))
	h.expiry = time.AfterFunc(l.ttl-time.Since(requestedAt), func() { l.lose(key, h) })
	l.mu.Lock()
	l.held[key] = h
	l.mu.Unlock()
	return leaseCtx, func() {
		l.mu.Lock()
		delete(l.held, key)
		l.mu.Unlock()
		h.expiry.Stop()
		h.cancel()
		if err := l.store.ReleaseLease(context.WithoutCancel(ctx), key, l.owner); err != nil {
			l.log.WarnContext(ctx, "lease not released, it will expire", slog.String("key", key), slog.Any("error", err))
		}
	}, true, nil
}

// lose ends the holder's context, and counts the lease as lost unless it was released.
func (l *leases) lose(key string, h *heldLease) {
	h.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] == h && !h.lost {
		h.lost = true
		l.lost.Add(1)
	}
}

// count returns how many leases are held.
func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// keep renews the leases until ctx is done.
func (l *leases) keep(ctx context.Context) {
	tick := time.NewTicker(l.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := l.renew(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.onRenewal(err); err != nil {
			l.log.WarnContext(ctx, "leases not renewed, retrying", slog.Any("error", err))
		}
	}
}

// renew renews the leases once. It loses leases that another owner has taken, and leases whose time has run out meanwhile.
func (l *leases) renew(ctx context.Context) error {
	l.mu.Lock()
	before := maps.Clone(l.held)
	l.mu.Unlock()
	if len(before) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	requestedAt := time.Now()
	// If the release of a lease has failed, the lease is not in held. It is not renewed, so it expires.
	epochs, err := l.store.RenewLeases(ctx, l.owner, l.ttl, slices.Collect(maps.Keys(before)))
	if err != nil {
		l.failures.Add(1)
		return err
	}
	for _, h := range before {
		// If the timer has fired, the holder has stopped or is about to stop, so the lease counts as lost.
		if epochs[h.lease.Key] != h.lease.Epoch || !h.expiry.Stop() {
			l.lose(h.lease.Key, h)
			continue
		}
		l.renewals.Add(1)
		h.expiry.Reset(l.ttl - time.Since(requestedAt))
	}
	return nil
}

// withLease calls f whenever this server gets the lease on the key, until ctx is done. It calls prepare before it asks for the lease,
// unless prepare is nil. When f returns, it releases the lease, and asks for it again after a while.
func (r *Reconciler) withLease(ctx context.Context, key string, prepare func(context.Context) error, f func(leaseCtx context.Context)) {
	for ctx.Err() == nil {
		if prepare != nil {
			if err := prepare(ctx); err != nil {
				if ctx.Err() == nil {
					r.log.WarnContext(ctx, "not ready for a lease, retrying", slog.String("key", key), slog.Any("error", err))
				}
				_ = sleep(ctx, r.cfg.LeaseTTL/3)
				continue
			}
		}
		leaseCtx, release, ok, err := r.leases.hold(ctx, key)
		if ok {
			f(leaseCtx)
			release()
		} else if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "no lease, retrying", slog.String("key", key), slog.Any("error", err))
		}
		_ = sleep(ctx, r.cfg.LeaseTTL/3) // another server has the lease, the store does not answer, or f has given up
	}
}
