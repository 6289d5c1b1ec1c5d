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

	"fleet/internal/fleet"
)

const (
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
	epoch, err := a.store.Lease(ctx, fleet.ReplicaLease+a.cfg.Replica, a.machine, serverLeaseTTL)
	if err == nil && epoch == 0 {
		err = fmt.Errorf("another server on this store, with another data directory, has the name %q: set replica to a name of its own; if it has just ended for good, try again in %s",
			a.cfg.Replica, serverLeaseTTL)
	}
	if err != nil {
		return err
	}
	ok, err := a.hear(ctx, true, false)
	if err == nil && !ok {
		err = errors.Join(a.forgotten(), a.store.Release(ctx, fleet.ReplicaLease+a.cfg.Replica, a.machine))
	}
	return err
}

// hear lets other servers and the list of servers know that this one is there, or that it ends. ok is false if it was forgotten.
func (a *App) hear(ctx context.Context, fresh, stopped bool) (ok bool, err error) {
	r := fleet.Replica{Name: a.cfg.Replica, Machine: a.machine, Version: Version(), Stopped: stopped}
	if a.peers != nil {
		r.Address = a.peers.address
	}
	return a.store.HearReplica(ctx, r, fresh)
}

// forgotten returns the error of a server that comes back after it was forgotten. Its agents are deleted in the store, and their files and
// programs may still be here.
func (a *App) forgotten() error {
	return fmt.Errorf("the server %q was forgotten, and its agents were deleted: end what still runs of them on this machine, then start with a new data directory", a.cfg.Replica)
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
			ends, err := a.shareOnce(ctx)
			if err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "the servers that share the limits were not counted, retrying", slog.Any("error", err))
			}
			if ends != nil {
				lost(ends)
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
			_, err := a.hear(ctx, false, true)
			if err := errors.Join(err, a.peers.withdraw(ctx), a.store.Release(ctx, fleet.ReplicaLease+a.cfg.Replica, a.machine)); err != nil {
				a.log.Warn("the lease of this server was not released, it will expire", slog.Any("error", err))
			}
		}
	}
}

// shareOnce renews the name and counts the servers once. A server that shares its store with none is alone. ends is why this server must
// end: another one has its name, or it was forgotten.
func (a *App) shareOnce(ctx context.Context) (ends, err error) {
	servers := 1
	if a.cfg.Replica != "" {
		ctx, cancel := context.WithTimeout(ctx, shareEvery)
		defer cancel()
		epoch, err := a.store.Lease(ctx, fleet.ReplicaLease+a.cfg.Replica, a.machine, serverLeaseTTL)
		if err != nil {
			return nil, err
		}
		if epoch == 0 {
			return fmt.Errorf("another server has taken the name %q while this one did not answer: this one ends", a.cfg.Replica), nil
		}
		if err := a.peers.announce(ctx); err != nil {
			return nil, err
		}
		if ok, err := a.hear(ctx, false, false); err != nil {
			return nil, err
		} else if !ok {
			return a.forgotten(), nil
		}
		all, err := a.store.Leases(ctx, fleet.ReplicaLease)
		if err != nil {
			return nil, err
		}
		servers = len(all)
	}
	if a.rates != nil {
		a.rates.Share(servers)
	}
	return nil, nil
}
