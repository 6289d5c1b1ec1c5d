package runner

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reaper waits for supervisors that have ended, so that they do not stay as zombies. It never blocks on an active supervisor.
// A supervisor may outlive the server; then the system's init process waits for it.
type reaper struct {
	signals chan os.Signal
	stop    chan struct{}
	done    chan struct{}

	mu   sync.Mutex
	pids map[int]struct{}
}

func newReaper() *reaper {
	r := &reaper{
		signals: make(chan os.Signal, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		pids:    map[int]struct{}{},
	}
	signal.Notify(r.signals, syscall.SIGCHLD)
	go r.run()
	return r
}

func (r *reaper) run() {
	defer close(r.done)
	for {
		select {
		case <-r.signals:
			r.reap()
		case <-r.stop:
			return
		}
	}
}

// add adds the process id of a child to the children to wait for.
func (r *reaper) add(pid int) {
	r.mu.Lock()
	r.pids[pid] = struct{}{}
	r.mu.Unlock()
	r.reap() // the child may have ended before it was added
}

// reap waits for the added children that have ended. It must not wait for other children of this process.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid := range r.pids {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if got == pid || err == syscall.ECHILD {
			delete(r.pids, pid)
		}
	}
}

func (r *reaper) close() {
	signal.Stop(r.signals)
	close(r.stop)
	<-r.done
	r.reap()
}
