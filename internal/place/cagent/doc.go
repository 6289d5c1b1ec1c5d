// Package cagent implements a fleet.Place whose agents are models. An agent is defined in the format of docker/cagent
// and run by that library.
//
// An agent is a directory with its record, its conversation, and the output and outcome of each run. The conversation
// continues from run to run, also after a restart of the server.
//
// A run of an agent that touches the machine has its own process under internal/runner (process.go, main.go). It is
// confined and survives the server. A run of an agent that only calls APIs is in the server's process (dispatch.go). If
// the server ends, such a run fails, because it is unknown what its tools have done. Both kinds use the same loop
// (run.go), with an engine for the process that they are in.
//
// The library is made for interactive use. Here nobody is asked for permission: the definition and the configuration
// decide what a tool may do (policy.go, guard.go). All requests to models pass a gate (gate.go), which ends runs: after
// an interrupt or a reported result, it lets no request through.
//
// Package app creates it, and the core calls it through fleet.Place. It runs processes with package runner. It must
// never run a tool in the server's process that touches the machine, and no other package may import the library.
package cagent
