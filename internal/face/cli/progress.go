package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// progress is a line at the bottom of the terminal with a spinner, a label and the elapsed time. On other streams it
// does nothing.
type progress struct {
	s     *session
	begun time.Time
	quit  chan struct{}
	over  chan struct{}

	mu    sync.Mutex
	label string
	spent float64 // US dollars
}

// progress starts a progress line. The caller must call done.
func (s *session) progress(label string, begun time.Time) *progress {
	p := &progress{s: s, begun: begun, label: label}
	if s.quiet || !s.screen.onErr.moves() {
		return p
	}
	p.quit, p.over = make(chan struct{}), make(chan struct{})
	go p.spin()
	return p
}

func (p *progress) spin() {
	defer close(p.over)
	tick := time.NewTicker(125 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		p.mu.Lock()
		label, spent := p.label, cost(p.spent)
		p.mu.Unlock()
		p.s.screen.bottom(strings.TrimSpace(frames[i%len(frames)] + " " + label + " " + longDuration(p.s.deps.Now().Sub(p.begun)) + " " + spent))
		select {
		case <-tick.C:
		case <-p.quit:
			p.s.screen.bottom("")
			return
		}
	}
}

// say changes the label.
func (p *progress) say(label string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.label = printable(label)
}

// spend adds a cost in US dollars.
func (p *progress) spend(usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent += usd
}

// done removes the line.
func (p *progress) done() {
	if p.quit != nil {
		close(p.quit)
		<-p.over
		p.quit = nil
	}
}

// withEvents makes a long call and meanwhile shows the agent's events: on the progress line of a terminal, and with
// --verbose also as lines. If it cannot read the events, the call continues without them.
func (s *session) withEvents(ctx context.Context, agent, label string, call func() error) error {
	p := s.progress(label, s.deps.Now())
	defer p.done()
	if s.quiet || !s.verbose && !s.screen.onErr.moves() {
		return call()
	}
	show := func(e *fleetv1.Event) error {
		if text := headline(e); text != "" {
			p.say(label + ": " + text)
			if s.verbose {
				s.note("%s: %s", e.GetAgentName(), text)
			}
		}
		return nil
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	f := s.feed(&fleetv1.WatchFleetRequest{Cursor: s.position(ctx), AgentName: agent, Follow: true})
	f.silent = true
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = f.run(watching, show, nil)
	}()
	err := call()
	cancel()
	<-over
	if s.verbose && f.req.GetCursor() != "now" { // the stream may not have delivered the last events yet
		f.req.Follow = false
		_ = f.run(ctx, show, nil)
	}
	return err
}

// position returns the cursor of the event log's current end, so that no later event is missed. It returns "now" if it
// cannot get that cursor.
func (s *session) position(ctx context.Context) string {
	stream, err := s.fleet.WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: "now"})
	if err != nil {
		return "now"
	}
	cursor := "now"
	for {
		resp, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return "now"
			}
			return cursor
		}
		if resp.GetCursor() != "" {
			cursor = resp.GetCursor()
		}
	}
}

// headline summarizes an event about the agent in a few words. It returns "" for output.
func headline(e *fleetv1.Event) string {
	switch e.GetType() {
	case fleetv1.Event_task_output:
		return ""
	case fleetv1.Event_agent_created:
		return "created"
	}
	if e.GetText() != "" {
		return e.GetText()
	}
	return e.GetStatus()
}
