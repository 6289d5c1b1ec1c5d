// Package runner executes runs on a machine. It starts each run in its own process (package shim), reads the output of
// the run's program (package driver), and stores everything that must survive this process in the agent's directory.
// The place "local" calls it directly; cmd/fleet-runner serves it in a workspace.
package runner
