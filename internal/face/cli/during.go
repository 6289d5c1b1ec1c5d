package cli

import (
	"context"
	"errors"
	"io"

	fleetv1 "fleet/gen/fleet/v1"
)

// during makes a long call and meanwhile shows the agent's events: on the progress line of a terminal, and with
// --verbose also as lines. If it cannot read the events, the call continues without them.
func (s *session) during(ctx context.Context, agent, label string, call func() error) error {
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
