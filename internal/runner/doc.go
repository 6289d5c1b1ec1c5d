// Package runner is how runs happen on a machine: it starts a run in a process of its own (shim), reads what the run's
// program puts out (driver), and keeps everything that must survive this process in the agent's directory. The place
// "local" calls it directly; cmd/fleet-runner serves it in a workspace.
package runner
