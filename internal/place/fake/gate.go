package fake

import "sync"

// Gate is a point at which calls or runs wait until the test opens the Gate.
type Gate struct {
	open, arrived         chan struct{}
	openOnce, arrivedOnce sync.Once
}

func newGate() *Gate { return &Gate{open: make(chan struct{}), arrived: make(chan struct{})} }

// Arrived returns a channel that is closed when the first call or run waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open opens the gate for good. It can be called several times.
func (g *Gate) Open() { g.openOnce.Do(func() { close(g.open) }) }

func (g *Gate) arrive() { g.arrivedOnce.Do(func() { close(g.arrived) }) }

func (g *Gate) isOpen() bool { return isClosed(g.open) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Release opens the gate with the name, at which the instruction "wait NAME" waits. Runs and checks that arrive later do not wait.
func (p *Place) Release(name string) { p.gate(name).Open() }

// Reached returns a channel that is closed when the first run or check waits at the gate with the name.
func (p *Place) Reached(name string) <-chan struct{} { return p.gate(name).arrived }

func (p *Place) arrive(name string) { p.gate(name).arrive() }

// gate returns the gate with the name, which it creates if there is none.
func (p *Place) gate(name string) *Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gates[name]
	if g == nil {
		g = newGate()
		p.gates[name] = g
	}
	return g
}
