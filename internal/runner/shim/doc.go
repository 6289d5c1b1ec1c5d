// Package shim supervises one run of an agent from a separate process. The run survives the server, and a restarted
// server finds everything in the run's directory.
//
// The server prepares a directory and starts the shim with it. Other packages call the shim the supervisor of the run. It
// claims the run and starts the child. From then on, only the shim reads the output of the child, sends signals to the
// child, ends the run at its deadline, kills the processes that the child leaves behind, and records how the run ended. If
// the shim is killed or does not answer, the server ends the run: see Run.Settle and Run.Kill. Nothing that the server does
// blocks the child.
//
// Package runner starts shims and reads their directories. A shim must never need the server, the store or the network.
//
// A run's directory holds:
//
//	run.json   the specification of the run, written by the server before it starts the shim
//	claim      the shim that supervises the run, or void if the server decided that the run must not start. The
//	           first of the two to create the file decides
//	child      the process of the child
//	lost       when it was noticed that the shim was killed, if the child may complete its request to the model
//	control    a Unix socket of the shim: interrupt, message, answer, watch, attach
//	messages   the ids of the messages that the child got
//	output     the beginning of the child's output; output.N continues it from byte N. Only the newest output.N files
//	           are kept
//	stderr     the child's standard error if it is not part of the output, stored like output
//	files/     the child's summary and payload. In the run's directory, a confined child can write only files/ and asks/
//	asks/, answers/, questions  questions of the child, see package question
//	exit.json  how the run ended; created once, after everything else
//	.spare-*   reserved disk space, so that claim, child and exit.json can be written on a full disk
//	shim.log   the shim's own log
//
// Environment variables are passed from process to process and never written to a file.
package shim
