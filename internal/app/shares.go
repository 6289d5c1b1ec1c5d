package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
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

// machineFile has what tells a server from another one of its name, in the data directory.
const machineFile = "machine"

// claimName makes sure that no other server has this one's name: each would take the agents on the machine of the other for its own,
// and for deleted. A server that starts again on the same data has its name at once.
func (a *App) claimName(ctx context.Context) (err error) {
	if a.cfg.Replica == "" {
		return nil
	}
	if a.machine, err = madeOnce(filepath.Join(a.cfg.Data, machineFile), rand.Text); err != nil {
		return err
	}
	epoch, err := a.store.Lease(ctx, serverLease+a.cfg.Replica, a.machine, serverLeaseTTL)
	if err == nil && epoch == 0 {
		err = fmt.Errorf("another server on this store, with another data directory, has the name %q: set replica to a name of its own; if it has just ended for good, try again in %s",
			a.cfg.Replica, serverLeaseTTL)
	}
	return err
}

// shareLimits keeps the name of this server, and divides the limits of requests by the number of servers on the store. The returned
// function ends it. lost is called if another server has taken the name.
func (a *App) shareLimits(lost func(error)) (end func()) {
	if a.rates == nil && a.cfg.Replica == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(shareEvery)
		defer tick.Stop()
		for {
			taken, err := a.shareOnce(ctx)
			if err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "the servers that share the limits were not counted, retrying", slog.Any("error", err))
			}
			if taken {
				lost(fmt.Errorf("another server has taken the name %q while this one did not answer: this one ends", a.cfg.Replica))
				return
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
			if err := errors.Join(a.peers.withdraw(ctx), a.store.Release(ctx, serverLease+a.cfg.Replica, a.machine)); err != nil {
				a.log.Warn("the lease of this server was not released, it will expire", slog.Any("error", err))
			}
		}
	}
}

// shareOnce renews the name and counts the servers once. A server that shares its store with none is alone. taken means that another
// server has the name.
func (a *App) shareOnce(ctx context.Context) (taken bool, err error) {
	servers := 1
	if a.cfg.Replica != "" {
		ctx, cancel := context.WithTimeout(ctx, shareEvery)
		defer cancel()
		epoch, err := a.store.Lease(ctx, serverLease+a.cfg.Replica, a.machine, serverLeaseTTL)
		if err != nil || epoch == 0 {
			return err == nil, err
		}
		if err := a.peers.announce(ctx); err != nil {
			return false, err
		}
		all, err := a.store.Leases(ctx, serverLease)
		if err != nil {
			return false, err
		}
		servers = len(all)
	}
	if a.rates != nil {
		a.rates.Share(servers)
	}
	return false, nil
}
