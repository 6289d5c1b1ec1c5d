package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"fleet/internal/store/postgres/pgtest"
)

// recoveryTimeout is how long a server may take to answer calls again after a fault has ended, also on a busy machine.
const recoveryTimeout = operationTimeout

// faultLog counts faults, and measures for how long callers got no service.
type faultLog struct {
	mu    sync.Mutex
	kinds map[string]*faultStats
	past  []pastFault
}

// pastFault is a fault from which a server has recovered.
type pastFault struct {
	text    string    // describes it
	serving time.Time // when the server answered calls again
}

type faultStats struct {
	count           int
	down            time.Duration // the sum of the times from the beginning of a fault until the server answered calls again
	recovery        time.Duration // the part of down that came after the ends of the faults
	longestRecovery time.Duration // the longest time from the end of a fault until the server answered calls again
}

// record records a fault of an expected kind, from which the server has just recovered: how long it lasted, and how long it took afterwards
// until the server answered calls. server is "" for the database.
func (l *faultLog) record(kind, server string, duration, recovery time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past = append(l.past, pastFault{fmt.Sprintf("%s of %s: lasted %s, no service for another %s", kind, cmp.Or(server, "the database"), duration, recovery), time.Now()})
	s := l.kinds[kind]
	s.count++
	s.down += duration + recovery
	s.recovery += recovery
	s.longestRecovery = max(s.longestRecovery, recovery)
}

// expect says that a long run must have faults of these kinds.
func (l *faultLog) expect(kinds ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range kinds {
		if l.kinds[kind] == nil {
			l.kinds[kind] = &faultStats{}
		}
	}
}

// missing returns the expected kinds of faults that have not happened.
func (l *faultLog) missing() (kinds []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, s := range l.kinds {
		if s.count == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (l *faultLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.past)
}

// describeRecent describes the faults that were over at the time end, but not d earlier. A fault is over when the server answers calls again.
func (l *faultLog) describeRecent(end time.Time, d time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, f := range l.past {
		if f.serving.Before(end) && f.serving.After(end.Add(-d)) {
			all = append(all, fmt.Sprintf("%s, answered at %s", f.text, f.serving.Format(time.TimeOnly)))
		}
	}
	return strings.Join(all, "; ")
}

// report writes a line for each kind of fault.
func (l *faultLog) report(line func(cells ...any)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line("fault", "count", "not served", "after its end", "longest")
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
	for _, kind := range slices.Sorted(maps.Keys(l.kinds)) {
		s := l.kinds[kind]
		line(kind, s.count, seconds(s.down), seconds(s.recovery), seconds(s.longestRecovery))
	}
}

// faultFunc injects a fault. It returns when the server can recover from the fault, with how long that took. The fault "wrong clock"
// lasts until the server is started again.
type faultFunc func(r *rand.Rand) (time.Duration, error)

// between returns a random duration that is not shorter than least, and is shorter than most.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// sleep sleeps for d and returns d.
func sleep(d time.Duration) time.Duration {
	time.Sleep(d)
	return d
}

// serverFaults returns the faults that can be injected into one server, by kind.
func serverFaults(s *server) map[string]faultFunc {
	faults := map[string]faultFunc{
		"kill -9": func(r *rand.Rand) (time.Duration, error) {
			s.Kill()
			d := sleep(between(r, 0, 1500*time.Millisecond))
			return d, s.Start(0)
		},
		"SIGTERM": func(r *rand.Rand) (time.Duration, error) {
			began := time.Now()
			if err := s.Stop(); err != nil {
				return 0, err
			}
			sleep(between(r, 0, 500*time.Millisecond))
			return time.Since(began), s.Start(0)
		},
		"SIGSTOP": func(r *rand.Rand) (time.Duration, error) {
			s.Signal(syscall.SIGSTOP)
			d := sleep(between(r, leaseTTL*3/2, 3*leaseTTL))
			s.Signal(syscall.SIGCONT)
			return d, nil
		},
		"wrong clock": func(r *rand.Rand) (time.Duration, error) {
			s.Kill()
			skew := 5 * time.Minute
			if r.IntN(2) == 0 {
				skew = -skew
			}
			return 0, s.Start(skew)
		},
	}
	if s.store == "" {
		return faults
	}
	each := func(f func(*pgtest.Link)) {
		for _, l := range s.links {
			f(l)
		}
	}
	faults["cut"] = func(*rand.Rand) (time.Duration, error) {
		each((*pgtest.Link).Cut)
		return 0, nil
	}
	faults["slow"] = func(r *rand.Rand) (time.Duration, error) {
		late := between(r, 20*time.Millisecond, 200*time.Millisecond)
		each(func(l *pgtest.Link) { l.Delay(late) })
		d := sleep(between(r, time.Second, 2*time.Second))
		each(func(l *pgtest.Link) { l.Delay(0) })
		return d, nil
	}
	faults["black hole"] = func(r *rand.Rand) (time.Duration, error) {
		each((*pgtest.Link).Stall)
		d := sleep(between(r, 2*time.Second, 4*time.Second))
		each((*pgtest.Link).Resume)
		return d, nil
	}
	faults["half open"] = func(*rand.Rand) (time.Duration, error) {
		each((*pgtest.Link).Forget)
		return 0, nil
	}
	faults["frozen"] = func(*rand.Rand) (time.Duration, error) {
		each((*pgtest.Link).Freeze)
		return 0, nil
	}
	faults["refused"] = func(r *rand.Rand) (time.Duration, error) {
		each(func(l *pgtest.Link) { l.Refuse() })
		d := sleep(between(r, time.Second, 2*time.Second))
		each(func(l *pgtest.Link) { l.Accept() })
		return d, nil
	}
	return faults
}

// diskFault returns a fault that fills the disk of the directory for a while.
func diskFault(dir string) faultFunc {
	return func(r *rand.Rand) (time.Duration, error) {
		path := filepath.Join(dir, "ballast")
		f, err := os.Create(path)
		if err != nil {
			return 0, err
		}
		piece := make([]byte, 64<<10)
		for err == nil {
			_, err = f.Write(piece)
		}
		_ = f.Close()
		d := sleep(between(r, time.Second, 2*time.Second))
		return d, os.Remove(path)
	}
}

// inject injects faults into the server, one after the other, until ctx is done. After each fault it waits until the
// server answers. Then it pauses for longer than the fault and the wait took together, so that the server works for at least
// half of the time.
func (l *faultLog) inject(ctx context.Context, s *server, faults map[string]faultFunc, r *rand.Rand) error {
	kinds := slices.Sorted(maps.Keys(faults))
	l.expect(kinds...)
	for took := time.Duration(0); ; {
		pause(ctx, took+between(r, 300*time.Millisecond, 1500*time.Millisecond))
		if ctx.Err() != nil {
			return nil
		}
		kind, began := kinds[r.IntN(len(kinds))], time.Now()
		duration, err := faults[kind](r)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", kind, s.name, err)
		}
		recovery, err := s.awaitServing(recoveryTimeout)
		if err != nil {
			return fmt.Errorf("after %s: %w", kind, err)
		}
		l.record(kind, s.name, duration, recovery)
		took = time.Since(began)
	}
}

// injectIntoDatabase injects faults into the database until ctx is done. After each fault it waits until all servers answer,
// and then pauses for some seconds longer than the fault and the wait took.
func (l *faultLog) injectIntoDatabase(ctx context.Context, d *database, servers []*server, r *rand.Rand) error {
	await := func() error {
		for _, s := range servers {
			if _, err := s.awaitServing(recoveryTimeout); err != nil {
				return err
			}
		}
		return nil
	}
	kinds := []string{"restart of pg", "failover"}
	if d.fillable {
		kinds = append(kinds, "pg disk full", "pg log full")
	}
	for took := time.Duration(0); ; {
		pause(ctx, took+between(r, 4*time.Second, 9*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		kind, began := kinds[r.IntN(len(kinds))], time.Now()
		var duration time.Duration
		var err error
		switch kind {
		case "restart of pg":
			err = d.Restart(between(r, 0, time.Second))
		case "failover":
			err = d.FailOver(func() { duration = time.Since(began) })
		default:
			err = d.FillDisk(kind == "pg log full", between(r, time.Second, 3*time.Second))
		}
		if duration == 0 {
			duration = time.Since(began)
		}
		ended := time.Now()
		if err == nil {
			err = await()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		l.record(kind, "", duration, time.Since(ended))
		took = time.Since(began)
	}
}
