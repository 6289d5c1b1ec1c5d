package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

// watcher follows all events. When a stream ends, it continues from its cursor at a random server.
type watcher struct {
	fleet  *fleetUnderLoad
	name   string
	follow func(ctx context.Context, s *server, cursor string, receive func(*fleetv1.WatchFleetResponse)) error

	mu       sync.Mutex
	events   []*fleetv1.Event
	cursor   string
	failures int // the number of streams that have failed
}

func newWatchers(f *fleetUnderLoad) []*watcher {
	return []*watcher{
		{fleet: f, name: "gRPC", follow: watchGRPC, cursor: "0"},
		{fleet: f, name: "REST", follow: watchREST, cursor: "0"},
		{fleet: f, name: "MCP", follow: watchMCP, cursor: "0"},
	}
}

// watchSeconds is how long one stream lasts over gRPC and REST. watchTimeout is how long its caller waits for the end of the
// stream.
const (
	watchSeconds = 3
	watchTimeout = 5 * time.Second
)

func watchGRPC(ctx context.Context, s *server, cursor string, receive func(*fleetv1.WatchFleetResponse)) error {
	stream, err := fleetv1.NewFleetServiceClient(s.conn).WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: cursor, Follow: true, WaitSeconds: new(int32(watchSeconds))})
	for err == nil {
		var m *fleetv1.WatchFleetResponse
		if m, err = stream.Recv(); err == nil {
			receive(m)
		}
	}
	if errors.Is(err, io.EOF) { // the stream has ended as requested
		return nil
	}
	return err
}

func watchREST(ctx context.Context, s *server, cursor string, receive func(*fleetv1.WatchFleetResponse)) error {
	r, err := restRequest(ctx, s, "WatchFleet", &fleetv1.WatchFleetRequest{Cursor: cursor, Follow: true, WaitSeconds: new(int32(watchSeconds))})
	if err != nil {
		return err
	}
	answer, err := httpClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		m := &fleetv1.WatchFleetResponse{}
		if err := unmarshalOptions.Unmarshal(lines.Bytes(), m); err != nil {
			return err
		}
		if m.GetCursor() == "" {
			return fmt.Errorf("an error in the stream: %.200s", lines.Bytes())
		}
		receive(m)
	}
	return lines.Err()
}

// watchMCP calls the tool once: MCP answers with the events of one second instead of a stream.
func watchMCP(ctx context.Context, s *server, cursor string, receive func(*fleetv1.WatchFleetResponse)) error {
	m := &fleetv1.WatchFleetResponse{}
	err := overMCP(ctx, s, "WatchFleet", &fleetv1.WatchFleetRequest{Cursor: cursor, Follow: true, WaitSeconds: new(int32(1)), MaxEvents: new(int32(200))}, m)
	if err == nil {
		receive(m)
	}
	return err
}

// run follows the events until ctx is done.
func (w *watcher) run(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		s := w.fleet.servers[r.IntN(len(w.fleet.servers))]
		limited, cancel := context.WithTimeout(ctx, watchTimeout)
		err := w.follow(limited, s, w.lastCursor(), w.add)
		cancel()
		if err != nil {
			w.mu.Lock()
			w.failures++
			w.mu.Unlock()
			pause(ctx, 50*time.Millisecond)
		}
	}
}

func (w *watcher) lastCursor() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cursor
}

// add records the events of the message, and what they show about tasks.
func (w *watcher) add(m *fleetv1.WatchFleetResponse) {
	now := w.fleet.history.now()
	w.mu.Lock()
	w.events = append(w.events, m.GetEvents()...)
	w.cursor = m.GetCursor()
	w.mu.Unlock()
	for _, e := range m.GetEvents() {
		status := ""
		if e.GetType() == fleetv1.Event_task_ended {
			status = e.GetStatus()
		}
		w.fleet.history.recordTask(e.GetTaskId(), status, now)
	}
}

// received returns the events that the watcher has received.
func (w *watcher) received() []*fleetv1.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// readLog reads the whole log of the fleet.
func (f *fleetUnderLoad) readLog(ctx context.Context) (log []*fleetv1.Event, err error) {
	for cursor := "0"; ; {
		stream, err := fleetv1.NewFleetServiceClient(f.servers[0].conn).WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: cursor, MaxEvents: new(int32(10000))})
		n := len(log)
		for err == nil {
			var m *fleetv1.WatchFleetResponse
			if m, err = stream.Recv(); err == nil {
				log, cursor = append(log, m.GetEvents()...), m.GetCursor()
			}
		}
		if !errors.Is(err, io.EOF) {
			return nil, err
		}
		if len(log) == n {
			return log, nil
		}
	}
}

// awaitWatchers waits for some seconds until the cursor of each watcher is last. It returns false if that does not happen.
func (f *fleetUnderLoad) awaitWatchers(ctx context.Context, last string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*watchTimeout)
	defer cancel()
	for slices.ContainsFunc(f.watchers, func(w *watcher) bool { return w.lastCursor() != last }) {
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return false
		}
	}
	return true
}
