// Package run implements the program that runs one agent on its model for one task, with the library docker/cagent.
//
// The supervisor of a run starts the program with the command of driver.NewModel. Main reads the job, continues the agent's
// conversation until the model has finished, and writes outputs and the outcome in the form driver.OutputLine.
//
// The library is made for interactive use, but here nobody can be asked for permission. So the definition and the
// configuration decide what a tool may do (guard.go). All requests to models pass a gate (gate.go). After an interrupt or a
// reported result, the gate lets no more requests through, and so ends the run.
//
// Only this package and package model/tool import the library's runtime, which needs cgo. Without cgo, Main only prints an
// error.
package run
