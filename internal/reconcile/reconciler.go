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

// The points at which Config.Fault is called: a process that dies there leaves the most to be put right.
const (
	FaultCreateCommitted  = "create.committed"   // the agent is in the store, nothing was done
	FaultProvisionBefore  = "provision.before"   // about to make the workspace
	FaultProvisionAfter   = "provision.after"    // the workspace is made and not recorded
	FaultDispatchRecorded = "dispatch.recorded"  // the dispatch is recorded and not done
	FaultDispatchAfter    = "dispatch.after"     // the agent has the run
	FaultFollowOutput     = "follow.output"      // output is recorded while the task runs
	FaultMessageBefore    = "message.before"     // a message is recorded and not given to the agent
	FaultMessageAfter     = "message.after"      // the agent has the message and that is not recorded
	FaultAnswerBefore     = "answer.before"      // an answer is recorded and not given to the agent
	FaultAnswerAfter      = "answer.after"       // the agent has the answer and that is not recorded
	FaultCheckBefore      = "check.before"       // the run has ended and its checks are about to be run
	FaultCheckAfter       = "check.after"        // a check was run and that is not recorded
	FaultRetryRecorded    = "retry.recorded"     // that the agent tries again is recorded and not done
	FaultFinishBefore     = "finish.before"      // the run has ended and that is not recorded
	FaultInterruptBefore  = "interrupt.before"   // a stop is asked for and nothing was done
	FaultInterruptAfter   = "interrupt.after"    // the run was interrupted
	FaultAgentStopBefore  = "agent-stop.before"  // about to stop the workspace
	FaultAgentStopAfter   = "agent-stop.after"   // the workspace is stopped and that is not recorded
	FaultAgentStartBefore = "agent-start.before" // about to start the workspace
	FaultAgentStartAfter  = "agent-start.after"  // the workspace is started and that is not recorded
	FaultDeleteBefore     = "delete.before"      // about to delete the workspace
	FaultDeleteAfter      = "delete.after"       // the workspace is gone and that is not recorded
)

// FaultPoints lists the points of Config.Fault.
var FaultPoints = []string{
	FaultCreateCommitted, FaultProvisionBefore, FaultProvisionAfter, FaultDispatchRecorded, FaultDispatchAfter,
	FaultFollowOutput, FaultMessageBefore, FaultMessageAfter, FaultAnswerBefore, FaultAnswerAfter, FaultCheckBefore, FaultCheckAfter, FaultRetryRecorded, FaultFinishBefore, FaultInterruptBefore, FaultInterruptAfter, FaultAgentStopBefore,
	FaultAgentStopAfter, FaultAgentStartBefore, FaultAgentStartAfter, FaultDeleteBefore, FaultDeleteAfter,
}

// Reconciler makes the world follow what the store says is wanted, and the store what the world says is so. It is
// level-triggered: whatever happened, also a crash, it looks at the rows and does the next thing. Several may run on
// one store, in one process or many; a lease on each agent keeps them apart.
type Reconciler struct {
	store  fleet.Store
	places *state.Places
	cfg    state.Config
	log    *slog.Logger
	snap   *state.Snapshot
	leases *leases // of the agents that it works on

	interrupts *state.Interrupts

	mu        sync.Mutex
	workers   map[string]*worker // by agent uid
	opSlots   chan struct{}      // how many slow operations go on at a time
	callSlots chan struct{}      // how many short calls of places do
	waiting   atomic.Int64       // workers that wait for a slot
	cancel    context.CancelFunc
	running   sync.WaitGroup
	stopping  chan struct{}
	stopOnce  sync.Once
}

// New returns a reconciler over the state. It starts nothing.
func New(s *state.Fleet) *Reconciler {
	return &Reconciler{
		store: s.Store, places: s.Places, cfg: s.Config, log: s.Log, snap: s.Snapshot, interrupts: s.Interrupts,
		leases:  newLeases(s.Store, s.Config.NewID(), s.Config.LeaseTTL, s.Log, s.Places.LeasesRenewed),
		workers: map[string]*worker{}, opSlots: make(chan struct{}, s.Config.Workers),
		callSlots: make(chan struct{}, 4*s.Config.Workers), stopping: make(chan struct{}),
	}
}

// now returns the time with the precision of the store.
func (r *Reconciler) now() time.Time { return r.cfg.Time() }

// Start begins to work in the background, until Stop.
func (r *Reconciler) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.running.Go(func() { r.leases.keep(ctx) })
	r.running.Go(func() { r.watch(ctx) })
	r.running.Go(func() { r.interruptEnded(ctx) })
	for _, p := range r.places.All {
		r.running.Go(func() { r.poll(ctx, p) })
	}
	r.running.Go(func() { r.prune(ctx) })
}

// Stop ends the work and waits for it. Workspaces and runs go on, and so does the work with the next Start on the store.
func (r *Reconciler) Stop() {
	if r.cancel != nil {
		r.cancel()
	}
	r.stopOnce.Do(func() { close(r.stopping) })
	r.running.Wait()
}

// Stopping is closed once Stop was called: nothing that is begun after it is done or recorded.
func (r *Reconciler) Stopping() <-chan struct{} { return r.stopping }

// Work returns what this reconciler has in hand.
func (r *Reconciler) Work() fleet.Work {
	w := fleet.Work{
		Waiting: int(r.waiting.Load()), Leases: r.leases.count(),
		Renewals: r.leases.renewals.Load(), RenewFailures: r.leases.failures.Load(), LeasesLost: r.leases.lost.Load(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Workers = len(r.workers)
	return w
}

// watch looks at what there is to do, whenever something has changed, and now and then for agents that another
// replica has let go.
func (r *Reconciler) watch(ctx context.Context) {
	signal, cancel := r.store.Subscribe()
	defer cancel()
	again := time.NewTicker(r.cfg.LeaseTTL / 2)
	defer again.Stop()
	for all := true; ; {
		err := r.scan(ctx, all)
		if err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "the store does not answer", slog.Any("error", err))
		}
		select {
		case <-signal:
			all = err != nil
		case <-again.C:
			all = true
		case <-ctx.Done():
			return
		}
	}
}

// scan sees to it that each agent with something to do has a worker, and that the worker knows when the agent has changed. Unless all is
// set, only agents that have changed since the last scan are looked at.
func (r *Reconciler) scan(ctx context.Context, all bool) error {
	if err := r.snap.Refresh(ctx); err != nil {
		return err
	}
	views := r.snap.TakeChanged()
	if all {
		views = r.snap.All()
		if err := r.places.SyncElsewhere(ctx, views); err != nil {
			return err
		}
	}
	for _, v := range views {
		if needsWork(v) && r.places.Lookup(v.Place) != nil {
			r.wake(ctx, v.UID)
		}
	}
	return nil
}

// needsWork says whether there is something to do for the agent.
func needsWork(v *fleet.AgentView) bool {
	return v.DeletedAt.IsZero() && (v.Task != nil || !v.Settled())
}

// wake tells the agent's worker to look again, and starts one when there is none.
func (r *Reconciler) wake(ctx context.Context, uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[uid]; w != nil {
		select {
		case w.woken <- struct{}{}:
		default: // it will look anyway
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	w := &worker{Reconciler: r, uid: uid, woken: make(chan struct{}, 1)}
	r.workers[uid] = w
	r.running.Go(func() { w.run(ctx) })
}

// leave ends the worker, unless it was woken since it last looked.
func (r *Reconciler) leave(w *worker, force bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !force && len(w.woken) > 0 {
		return false
	}
	delete(r.workers, w.uid)
	return true
}
