package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// These are the points at which Config.Fault is called. A crash at one of them leaves the most work to the next process.
const (
	FaultCreateCommitted  = "create.committed"   // the agent is in the store, but its workspace does not exist
	FaultProvisionBefore  = "provision.before"   // the workspace is about to be created
	FaultProvisionAfter   = "provision.after"    // the workspace exists, but this is not recorded
	FaultDispatchRecorded = "dispatch.recorded"  // the dispatch is recorded but has not begun
	FaultDispatchAfter    = "dispatch.after"     // the agent has received the run
	FaultFollowOutput     = "follow.output"      // output is recorded while the task runs
	FaultMessageBefore    = "message.before"     // a message is stored but not delivered
	FaultMessageAfter     = "message.after"      // the agent has received the message, but this is not recorded
	FaultAnswerBefore     = "answer.before"      // an answer is stored but not delivered
	FaultAnswerAfter      = "answer.after"       // the answer was sent, perhaps without success, but this is not recorded
	FaultCheckBefore      = "check.before"       // the run has ended, and its checks are about to run
	FaultCheckAfter       = "check.after"        // a check has run or could not be run, but its result is not recorded
	FaultRetryRecorded    = "retry.recorded"     // the next try is recorded but has not begun
	FaultResultsAwaited   = "results.awaited"    // the turn of a task is over, and it waits for the results of delegated tasks
	FaultFinishBefore     = "finish.before"      // the run has ended, but this is not recorded
	FaultInterruptBefore  = "interrupt.before"   // a stop is requested, but the run is not interrupted
	FaultInterruptAfter   = "interrupt.after"    // the run was interrupted
	FaultAgentStopBefore  = "agent-stop.before"  // the workspace is about to be stopped
	FaultAgentStopAfter   = "agent-stop.after"   // the workspace is stopped, but this is not recorded
	FaultAgentStartBefore = "agent-start.before" // the workspace is about to be started
	FaultAgentStartAfter  = "agent-start.after"  // the workspace is started, but this is not recorded
	FaultDeleteBefore     = "delete.before"      // the workspace is about to be deleted
	FaultDeleteAfter      = "delete.after"       // the workspace is deleted, but this is not recorded
)

// FaultPoints lists the points of Config.Fault.
var FaultPoints = []string{
	FaultCreateCommitted, FaultProvisionBefore, FaultProvisionAfter, FaultDispatchRecorded, FaultDispatchAfter,
	FaultFollowOutput, FaultMessageBefore, FaultMessageAfter, FaultAnswerBefore, FaultAnswerAfter, FaultCheckBefore, FaultCheckAfter, FaultRetryRecorded, FaultResultsAwaited, FaultFinishBefore, FaultInterruptBefore, FaultInterruptAfter, FaultAgentStopBefore,
	FaultAgentStopAfter, FaultAgentStartBefore, FaultAgentStartAfter, FaultDeleteBefore, FaultDeleteAfter,
}

// Reconciler brings the places to the desired state in the store, and the store to the observed state of the places. It is
// level-triggered: after any event, even a crash, it reads the rows and takes the next step. Several reconcilers may run on
// one store, in one or in several processes. A lease on each agent ensures that only one of them works on it.
type Reconciler struct {
	store  fleet.Store
	places *state.Places
	cfg    state.Config
	log    *slog.Logger
	snap   *state.Snapshot
	leases *leases // all leases that this reconciler holds, except those of polling

	interrupts      *state.Interrupts
	jobs            Jobs                                         // may be nil
	settingsChanged chan struct{}                                // see SettingsChanged
	pollRequests    map[*state.ManagedPlace]chan chan<- struct{} // requests of PollNow

	mu         sync.Mutex         // guards workers
	workers    map[string]*worker // by agent uid
	opSlots    chan struct{}      // limits concurrent slow operations
	callSlots  chan struct{}      // limits concurrent short calls of places
	waiting    atomic.Int64       // number of workers that wait for a slot
	cancel     context.CancelFunc
	background sync.WaitGroup
	stopping   chan struct{}
	stopOnce   sync.Once
}

// Jobs does the work that is not about a single agent. Of the reconcilers on a store, only one calls Dispatch at a time, only one
// calls SendWebhooks, and only one calls RunTrain for a train. Dispatch and RunTrain return when to call them again even if
// nothing happens, or zero if that is not needed.
type Jobs interface {
	// Prepare reads the data that Dispatch needs. The first call may take a while. Any reconciler may call it.
	Prepare(ctx context.Context) error
	// Dispatch starts the pending tasks that can start. It fails if the store does not answer.
	Dispatch(ctx context.Context) (next time.Time, err error)
	// Trains returns the trains that this process can run and that have work.
	Trains(ctx context.Context) ([]fleet.Train, error)
	// RunTrain lands the work of the train that can land.
	RunTrain(ctx context.Context, t fleet.Train) (next time.Time, err error)
	// ObserveLandings records the work that people have landed without Fleet.
	ObserveLandings(ctx context.Context) error
	// SendWebhooks sends events to webhooks until its context is done or the store fails.
	SendWebhooks(ctx context.Context) error
}

// New returns a reconciler for the state. Start starts it. Without jobs, pending tasks do not start, nothing lands, and webhooks get no events.
func New(s *state.Fleet, jobs Jobs) *Reconciler {
	requests := map[*state.ManagedPlace]chan chan<- struct{}{}
	for _, p := range s.Places.All {
		requests[p] = make(chan chan<- struct{})
	}
	return &Reconciler{
		pollRequests: requests, settingsChanged: make(chan struct{}, 1),
		store: s.Store, places: s.Places, cfg: s.Config, log: s.Log, snap: s.Snapshot, interrupts: s.Interrupts, jobs: jobs,
		leases:  newLeases(s.Store, s.LeaseOwner, s.Config.LeaseTTL, s.Log, s.Places.RecordLeaseRenewal),
		workers: map[string]*worker{}, opSlots: make(chan struct{}, s.Config.Workers),
		callSlots: make(chan struct{}, 4*s.Config.Workers), stopping: make(chan struct{}),
	}
}

// read calls fn with one consistent state of the store, and returns its results.
func read[T any](ctx context.Context, s fleet.Store, fn func(tx fleet.ReadTx) (T, error)) (value T, err error) {
	err = s.View(ctx, func(tx fleet.ReadTx) (err error) {
		value, err = fn(tx)
		return err
	})
	return value, err
}

// now returns the time with the precision of the store.
func (r *Reconciler) now() time.Time { return r.cfg.Time() }

// Start starts the work in the background, and returns. It must be called at most once. Stop ends the work.
func (r *Reconciler) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.background.Go(func() { r.leases.keep(ctx) })
	r.background.Go(func() { r.watch(ctx) })
	r.background.Go(func() { r.interruptEndedRuns(ctx) })
	for _, p := range r.places.All {
		r.background.Go(func() { r.poll(ctx, p) })
	}
	r.background.Go(func() { r.prune(ctx) })
	if r.jobs != nil {
		r.background.Go(func() { r.runDispatcher(ctx) })
		r.background.Go(func() { r.runTrains(ctx) })
		r.background.Go(func() { r.observeLandings(ctx) })
		r.background.Go(func() { r.sendWebhooks(ctx) })
	}
}

// Stop stops the background work and waits until it has stopped. Workspaces and runs continue. The next reconciler on the
// store continues the work.
func (r *Reconciler) Stop() {
	if r.cancel != nil {
		r.cancel()
	}
	r.stopOnce.Do(func() { close(r.stopping) })
	r.background.Wait()
}

// Stopping returns a channel that Stop closes when it is called.
func (r *Reconciler) Stopping() <-chan struct{} { return r.stopping }

// Stats returns statistics about the work of this reconciler.
func (r *Reconciler) Stats() fleet.WorkerStats {
	w := fleet.WorkerStats{
		Waiting: int(r.waiting.Load()), Leases: r.leases.count(),
		Renewals: r.leases.renewals.Load(), RenewFailures: r.leases.failures.Load(), LeasesLost: r.leases.lost.Load(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Workers = len(r.workers)
	return w
}

// scanScope says which agents a scan looks at.
type scanScope int

const (
	changedAgents  scanScope = iota // those that have changed since the last scan, except those that another process is working on
	releasedAgents                  // also those that another process was working on and has released
	allAgents
)

// watch starts and wakes workers whenever something has changed. From time to time it also looks for agents whose leases
// other processes no longer hold.
func (r *Reconciler) watch(ctx context.Context) {
	signal, cancel := r.store.Subscribe()
	defer cancel()
	released, all := time.NewTicker(r.cfg.LeaseTTL/10), time.NewTicker(r.cfg.LeaseTTL/2)
	defer released.Stop()
	defer all.Stop()
	for next := allAgents; ; {
		err := r.scan(ctx, next)
		if err == nil {
			next = changedAgents
		} else if ctx.Err() == nil {
			r.log.ErrorContext(ctx, "the store does not answer", slog.Any("error", err))
			next = allAgents
		}
		select {
		case <-signal:
		case <-released.C:
			next = max(next, releasedAgents)
		case <-all.C:
			next = allAgents
		case <-ctx.Done():
			return
		}
	}
}

// scan ensures that each agent that needs work has a worker, and wakes the workers of changed agents. An agent that another
// process is working on is left to that process, which gets the changes too.
func (r *Reconciler) scan(ctx context.Context, which scanScope) error {
	refresh := [...]func(context.Context) error{r.snap.RefreshOwn, r.snap.RefreshReleased, r.snap.Refresh}[which]
	if err := refresh(ctx); err != nil {
		return err
	}
	views := r.snap.TakeChanged()
	if which == allAgents {
		views = r.snap.All()
		if err := r.places.SyncOtherServers(ctx, views); err != nil {
			return err
		}
	}
	for _, v := range views {
		if needsWork(v) && r.places.Configured(v.Place) != nil {
			r.wake(ctx, v.UID)
		}
	}
	return nil
}

// needsWork reports whether a worker has something to do for the agent. v is nil if the agent was deleted.
func needsWork(v *fleet.AgentView) bool {
	return v != nil && v.DeletedAt.IsZero() && (v.Task != nil || !v.Settled())
}

// wake wakes the agent's worker. If there is none, wake starts a worker.
func (r *Reconciler) wake(ctx context.Context, uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[uid]; w != nil {
		select {
		case w.wakeUp <- struct{}{}:
		default: // a wake-up is already pending
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	w := &worker{Reconciler: r, uid: uid, wakeUp: make(chan struct{}, 1)}
	r.workers[uid] = w
	r.background.Go(func() { w.run(ctx) })
}

// removeWorker removes the worker, unless a wake-up is pending and force is not set. It reports whether it has removed the
// worker.
func (r *Reconciler) removeWorker(w *worker, force bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !force && len(w.wakeUp) > 0 {
		return false
	}
	delete(r.workers, w.uid)
	return true
}
