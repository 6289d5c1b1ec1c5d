// Package cagent implements a fleet.Place whose agents are models. An agent is defined in the format of docker/cagent
// and run by that library.
//
// An agent is a directory with its record, its conversation, and the output and outcome of each run. The conversation
// continues from run to run, also after a restart of the server.
//
// If an agent touches the machine, each of its runs has its own process under internal/runner (process.go, main.go).
// The process is confined and survives the server. If an agent only calls APIs, its runs are in the server's process
// (dispatch.go), and the next server resumes them (resume.go). Both kinds of runs use the same loop (run.go), with an
// engine for the process that they are in.
//
// The library is made for interactive use. Here nobody is asked for permission: the definition and the configuration
// decide what a tool may do (policy.go, guard.go). All requests to models pass a gate (gate.go), which ends runs: after
// an interrupt or a reported result, it lets no more requests through.
//
// Package app creates the place, and the core calls it through fleet.Place. The place starts processes with package
// runner. It must never run a tool that touches the machine in the server's process. No other package may import the
// library.
package cagent
