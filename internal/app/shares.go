package app

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// serverLease is the beginning of the keys of leases that servers hold while they serve.
	serverLease = "server/"
	// serverLeaseTTL is how long a server counts that does not renew its lease, and shareEvery the interval at which a server
	// renews it and counts the others.
	serverLeaseTTL = 15 * time.Second
	shareEvery     = 5 * time.Second
)

// shareLimits divides the limits of requests by the number of servers on the store. The returned function ends it.
func (a *App) shareLimits() (end func()) {
	if a.rates == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(shareEvery)
		defer tick.Stop()
		for {
			if err := a.shareOnce(ctx); err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "the servers that share the limits were not counted, retrying", slog.Any("error", err))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
		if a.cfg.Replica != "" {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := a.store.Release(ctx, serverLease+a.cfg.Replica, a.cfg.Replica); err != nil {
				a.log.Warn("the lease of this server was not released, it will expire", slog.Any("error", err))
			}
		}
	}
}

// shareOnce counts the servers once. A server that shares its store with none is alone.
func (a *App) shareOnce(ctx context.Context) error {
	servers := 1
	if a.cfg.Replica != "" {
		ctx, cancel := context.WithTimeout(ctx, shareEvery)
		defer cancel()
		_, err := a.store.Lease(ctx, serverLease+a.cfg.Replica, a.cfg.Replica, serverLeaseTTL)
		if err != nil {
			return err
		}
		if servers, err = a.store.Leases(ctx, serverLease); err != nil {
			return err
		}
	}
	a.rates.Share(servers)
	return nil
}
