package model

import "sync"

// Gate is where an answer waits until the test opens it, or until nobody waits for the answer any more.
type Gate struct {
	arrived, open, left chan struct{}
	arrive, leave, pass func() // close theirs, once
}

func newGate() *Gate {
	g := &Gate{arrived: make(chan struct{}), open: make(chan struct{}), left: make(chan struct{})}
	g.arrive = sync.OnceFunc(func() { close(g.arrived) })
	g.leave = sync.OnceFunc(func() { close(g.left) })
	g.pass = sync.OnceFunc(func() { close(g.open) })
	return g
}

// Arrived is closed when an answer waits, or has waited.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Left is closed when a caller has gone away without its answer.
func (g *Gate) Left() <-chan struct{} { return g.left }

// Open lets the answers through, for good.
func (g *Gate) Open() { g.pass() }
