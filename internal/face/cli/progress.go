package cli

import (
	"strings"
	"sync"
	"time"
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
		p.s.screen.bottom(strings.TrimSpace(frames[i%len(frames)] + " " + label + " " + exact(p.s.deps.Now().Sub(p.begun)) + " " + spent))
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
