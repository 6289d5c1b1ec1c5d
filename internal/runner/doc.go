// Package runner executes runs on a machine. It starts each run in a process of its own (package shim), reads the
// output of the run's program (package driver), and keeps everything that must survive this process in the agent's
// directory (Home).
//
// The places local and cagent call it directly, and cmd/fleet-runner serves it in a workspace through package remote.
// Above it is fleet.Runner, whose comments it implements. It must never keep state only in memory: another process must
// be able to continue after a crash at any point. It knows one machine, and nothing about projects, owners or the
// store.
package runner
