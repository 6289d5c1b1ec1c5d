package cli

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

var spinnerFrames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// progress is a line at the bottom of the terminal with a spinner, a label, the elapsed time and the cost. It is not shown if standard
// error is not a terminal, or with --quiet.
type progress struct {
	s       *session
	started time.Time
	quit    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	label   string
	costUSD float64
}

// startProgress starts a progress line about work that began at the time started. The caller must call stop.
func (s *session) startProgress(label string, started time.Time) *progress {
	p := &progress{s: s, started: started, label: label}
	if s.quiet || !s.screen.errTerminal.hasCursor() {
		return p
	}
	p.quit, p.stopped = make(chan struct{}), make(chan struct{})
	go p.spin()
	return p
}

func (p *progress) spin() {
	defer close(p.stopped)
	tick := time.NewTicker(125 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		p.mu.Lock()
		label, cost := p.label, costText(p.costUSD)
		p.mu.Unlock()
		p.s.screen.setProgress(strings.TrimSpace(spinnerFrames[i%len(spinnerFrames)] + " " + label + " " + longDuration(p.s.deps.Now().Sub(p.started)) + " " + cost))
		select {
		case <-tick.C:
		case <-p.quit:
			p.s.screen.setProgress("")
			return
		}
	}
}

func (p *progress) setLabel(label string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.label = printable(label)
}

// addCost adds a cost in US dollars to the cost on the line.
func (p *progress) addCost(usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.costUSD += usd
}

// stop removes the line. It may be called again.
func (p *progress) stop() {
	if p.quit != nil {
		close(p.quit)
		<-p.stopped
		p.quit = nil
	}
}

// withEvents makes a long call. While the call runs, it shows the agent's events on the progress line of a terminal, and with --verbose also
// as lines of their own. If the events cannot be read, the call goes on without them.
func (s *session) withEvents(ctx context.Context, agent, label string, call func() error) error {
	p := s.startProgress(label, s.deps.Now())
	defer p.stop()
	if s.quiet || !s.verbose && !s.screen.errTerminal.hasCursor() {
		return call()
	}
	show := func(e *fleetv1.Event) error {
		if text := eventHeadline(e); text != "" {
			p.setLabel(label + ": " + text)
			if s.verbose {
				s.note("%s: %s", e.GetAgentName(), text)
			}
		}
		return nil
	}
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := s.newEventFeed(&fleetv1.WatchFleetRequest{Cursor: s.latestCursor(ctx), AgentName: agent, Follow: true})
	f.silent = true
	watchDone := make(chan struct{})
	go func() {
		defer close(watchDone)
		_ = f.run(watchCtx, show, nil)
	}()
	err := call()
	cancel()
	<-watchDone
	if s.verbose && f.req.GetCursor() != "now" { // the stream may not have delivered the last events yet
		f.req.Follow = false
		_ = f.run(ctx, show, nil)
	}
	return err
}

// eventHeadline summarizes an event about an agent in a few words. It returns "" for a task's output.
func eventHeadline(e *fleetv1.Event) string {
	switch e.GetType() {
	case fleetv1.Event_task_output:
		return ""
	case fleetv1.Event_agent_created:
		return "created"
	}
	return cmp.Or(e.GetText(), e.GetStatus())
}
