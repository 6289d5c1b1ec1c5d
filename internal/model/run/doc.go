// Package run is the program that runs one agent on its model for one task, with the library docker/cagent.
//
// The supervisor of a run starts it as the driver driver.NewModel says. Main reads the job, continues the agent's conversation until the
// model has finished, and writes outputs and the outcome in the form driver.OutputLine.
//
// The library is made for interactive use. Here nobody is asked for permission: the definition and the configuration
// decide what a tool may do (guard.go). All requests to models pass a gate (gate.go), which ends runs: after
// an interrupt or a reported result, it lets no more requests through.
//
// Only this package and package model/tool import the library's runtime, which needs cgo. Without cgo, Main says so.
package run
