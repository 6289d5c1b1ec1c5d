// Package runner executes runs on a machine. It starts a supervisor process for each run (package shim), reads the
// output of the run's program (package driver), and keeps everything that must survive this process in the agent's
// directory (Home).
//
// The place local calls it directly, and cmd/fleet-runner serves it in a workspace through package remote.
// It implements fleet.Runner, whose comments state the contract. The package must never keep state only in memory,
// because another process must be able to continue after a crash at any point. It handles the runs of one machine. It
// does not depend on projects, owners or the store.
package runner
