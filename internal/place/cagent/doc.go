// Package cagent is the fleet.Place whose agents are models: a definition in the format of docker/cagent, run by that
// library.
//
// An agent is a directory: what it was made of, its conversation, and for each run what it put out and how it ended. The
// conversation goes on from run to run, also after a restart of the server.
//
// A run of an agent that touches the machine is a process of its own under internal/runner (process.go, main.go). It is
// confined and survives the server. A run of an agent that only talks to APIs is in the server's process (dispatch.go). When
// that ends, the run has failed and says so, since nobody can tell what its tools had done by then. Both are the same loop
// (run.go), with an engine of the process that they are in.
//
// The library is made to sit at a person's desk. Here nobody is asked anything: what a tool may do follows from the
// definition and the configuration (policy.go, guard.go). The models are spoken to through a gate (gate.go), which is
// where a run ends: when it is interrupted or has reported its result, no further request goes through.
package cagent
