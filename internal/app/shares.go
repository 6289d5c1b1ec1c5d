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
	// serverLeaseTTL is how long a server keeps its name and its part of the limits without renewing its lease.
	serverLeaseTTL = 15 * time.Second
	// shareEvery is the interval at which a server renews its lease and divides the limits again.
	shareEvery = 5 * time.Second
)

// machineFile is the file in the data directory with a random text. The text distinguishes a server from another one
// with the same name.
const machineFile = "machine"

// claimName takes the lease on the name of this server, and records that the server runs. It returns an error if another
// server has the lease or if this server was forgotten. Without a name, it does nothing. A server that restarts on the same
// data gets its name at once.
//
// Two servers with one name would each expect the other's agents on their own machine, find nothing there, and treat the
// agents as deleted.
func (a *App) claimName(ctx context.Context) (err error) {
	if a.cfg.Replica == "" {
		return nil
	}
	if a.machine, err = readOrCreate(filepath.Join(a.cfg.Data, machineFile), rand.Text); err != nil {
		return err
	}
	epoch, err := a.store.AcquireLease(ctx, fleet.ReplicaLeasePrefix+a.cfg.Replica, a.machine, serverLeaseTTL)
	if err == nil && epoch == 0 {
		err = fmt.Errorf("another server on this store, with another data directory, has the name %q: set replica to a name of its own; if it has just ended for good, try again in %s",
			a.cfg.Replica, serverLeaseTTL)
	}
	if err != nil {
		return err
	}
	ok, err := a.recordHeartbeat(ctx, serverStarts)
	if err == nil && !ok {
		err = errors.Join(a.forgottenError(), a.store.ReleaseLease(ctx, fleet.ReplicaLeasePrefix+a.cfg.Replica, a.machine))
	}
	return err
}

// heartbeat is what a server records about itself in the store.
type heartbeat int

const (
	serverStarts heartbeat = iota
	serverRuns
	serverStops
)

// recordHeartbeat records the heartbeat of this server in the store. ok is false if the server was forgotten.
func (a *App) recordHeartbeat(ctx context.Context, h heartbeat) (ok bool, err error) {
	r := fleet.Replica{Name: a.cfg.Replica, Machine: a.machine, Version: Version(), Stopped: h == serverStops}
	r.Address = a.peers.Address()
	return a.store.RecordHeartbeat(ctx, r, h == serverStarts)
}

// forgottenError returns the error for a server that starts again, or answers again, after it was forgotten. Its agents are
// deleted in the store, but their files and programs may still be on this machine.
func (a *App) forgottenError() error {
	return fmt.Errorf("the server %q was forgotten, and its agents were deleted: end their programs that still run on this machine, then start with a new data directory", a.cfg.Replica)
}

// startSharing starts a goroutine that calls shareOnce every shareEvery until end is called. If this server must end, see
// shareOnce, the goroutine calls mustEnd with the reason and ends. end waits for the goroutine, records that this server has stopped, and
// releases its lease. Without a name and without limits, there is nothing to do.
func (a *App) startSharing(mustEnd func(reason error)) (end func()) {
	if a.rates == nil && a.cfg.Replica == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(shareEvery)
		defer tick.Stop()
		for {
			endReason, err := a.shareOnce(ctx)
			if err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "cannot divide the limits among the servers, retrying", slog.Any("error", err))
			}
			if endReason != nil {
				mustEnd(endReason)
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
			ctx, cancel := context.WithTimeout(context.Background(), a.closeGrace/15) // a second by default
			defer cancel()
			_, err := a.recordHeartbeat(ctx, serverStops)
			if err := errors.Join(err, a.peers.Withdraw(ctx), a.store.ReleaseLease(ctx, fleet.ReplicaLeasePrefix+a.cfg.Replica, a.machine)); err != nil {
				a.log.Warn("cannot release the lease of this server, it will expire", slog.Any("error", err))
			}
		}
	}
}

// shareOnce renews the lease on the name, and divides the limits of requests among the servers that run. Without a name,
// there is only this server. endReason is not nil if this server must end, because another server has its name or because it was
// forgotten.
func (a *App) shareOnce(ctx context.Context) (endReason, err error) {
	servers := 1
	if a.cfg.Replica != "" {
		ctx, cancel := context.WithTimeout(ctx, shareEvery)
		defer cancel()
		epoch, err := a.store.AcquireLease(ctx, fleet.ReplicaLeasePrefix+a.cfg.Replica, a.machine, serverLeaseTTL)
		if err != nil {
			return nil, err
		}
		if epoch == 0 {
			return fmt.Errorf("another server has taken the name %q while this one did not answer: this one ends", a.cfg.Replica), nil
		}
		if err := a.peers.Announce(ctx); err != nil {
			return nil, err
		}
		if ok, err := a.recordHeartbeat(ctx, serverRuns); err != nil {
			return nil, err
		} else if !ok {
			return a.forgottenError(), nil
		}
		if servers, err = a.countServers(ctx); err != nil {
			return nil, err
		}
	}
	if a.rates != nil {
		a.rates.SetServers(servers)
	}
	return nil, nil
}

// countServers returns how many servers run or answer, this one included.
func (a *App) countServers(ctx context.Context) (n int, err error) {
	all, err := a.service.RecordedReplicas(ctx)
	for _, r := range all {
		if r.Running || r.Answers {
			n++
		}
	}
	return n, err
}
