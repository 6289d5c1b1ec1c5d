package model

import "sync"

// Gate is a point at which an answer waits until the test opens the Gate or the client disconnects.
type Gate struct {
	arrived, open, left chan struct{}
	arrive, pass, leave func() // close arrived, open and left; only the first call of each has an effect
}

func newGate() *Gate {
	g := &Gate{arrived: make(chan struct{}), open: make(chan struct{}), left: make(chan struct{})}
	g.arrive = sync.OnceFunc(func() { close(g.arrived) })
	g.leave = sync.OnceFunc(func() { close(g.left) })
	g.pass = sync.OnceFunc(func() { close(g.open) })
	return g
}

// Arrived returns a channel that is closed when the first answer waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Left returns a channel that is closed when a client disconnects while its answer waits at the gate.
func (g *Gate) Left() <-chan struct{} { return g.left }

// Open opens the gate. It stays open.
func (g *Gate) Open() { g.pass() }
