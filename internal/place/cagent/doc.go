// Package cagent implements a fleet.Place whose agents are models. An agent is defined in the format of docker/cagent
// and run by that library.
//
// An agent is a directory with its record, its conversation, and the output and outcome of each run. The conversation
// continues from run to run.
//
// Each run has a process of its own under internal/runner (process.go, main.go), which is confined and survives the server. The
// server only supervises: it never sends a request to a model and never runs a tool.
//
// The library is made for interactive use. Here nobody is asked for permission: the definition and the configuration
// decide what a tool may do (policy.go, guard.go). All requests to models pass a gate (gate.go), which ends runs: after
// an interrupt or a reported result, it lets no more requests through.
//
// Package app creates the place, and the core calls it through fleet.Place. The place starts processes with package
// runner. No other package may import the library.
package cagent
