// Package cagent is the fleet.Place whose agents are models: a definition in the format of docker/cagent, run by that
// library in this process.
//
// An agent is a directory: what it was made of, its conversation, and for each run what it put out and how it ended. The
// conversation goes on from run to run, also after a restart of the server. A run does not: one that was under way when
// the process ended has failed, and says so, since nobody can tell what its tools had done by then.
//
// The library is made to sit at a person's desk. Here nobody is asked anything: what a tool may do follows from the
// definition and the configuration (policy.go, guard.go). The models are spoken to through a gate (gate.go), which is
// where a run ends: when it is interrupted or has reported its result, no further request goes through.
package cagent
