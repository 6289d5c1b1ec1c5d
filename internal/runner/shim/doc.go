// Package shim supervises one run of an agent from a separate process. The run survives the server, and a restarted
// server finds everything in the run's directory.
//
// The server prepares a directory and starts the shim with it. The shim claims the run and starts the child. From then
// on only the shim reads the child's output, sends it signals, ends it at its deadline, kills the processes that it
// leaves behind, and records how it ended. Nothing that the server does blocks the child.
//
// Package runner starts shims and reads their directories. A shim must never need the server, the store or the network.
//
// A run's directory holds:
//
//	run.json   what to run, written by the server before it starts the shim
//	claim      who supervises the run, or that nobody ever will; created once, by the first process
//	child      the process of the child
//	control    a Unix socket of the shim: interrupt, message, answer, watch
//	messages   the ids of the messages that the child got
//	output     the beginning of the child's output; output.N has it from byte N. Only the last of these files are
//	           kept
//	stderr     its standard error, if that is kept apart, in the same way
//	files/     the program's summary and payload. A confined program can write nothing else here except asks/
//	asks/, answers/, questions  questions of the program, see package ask
//	exit.json  how the run ended; created once, after everything else
//	.spare-*   disk space for claim, child and exit.json
//	shim.log   the shim's own log
//
// Environment variables are passed from process to process and never written to a file.
package shim
