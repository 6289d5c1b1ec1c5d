// Package shim supervises one run of an agent from a separate process. The run survives the server, and a restarted
// server finds everything in the run's directory.
//
// The server prepares a directory and starts the shim with it. The shim claims the run and starts the child. From then
// on only the shim reads the child's output, sends it signals, ends it at its deadline, kills the processes that it
// leaves behind, and records how it ended. Nothing that the server does blocks the child.
//
// A run's directory holds:
//
//	run.json   what to run; written by the server before it starts the shim
//	claim      who supervises the run, or that nobody ever will; made once, by whoever is first
//	child      which process the child is
//	control    a Unix socket of the shim: interrupt, message, answer, watch
//	messages   the ids of the messages that the child was given
//	output     the beginning of what the child put out; output.N holds what came from byte N on. Of these files, the
//	           last ones are kept, see output
//	stderr     what it put out as errors, where they are kept apart, in the same way
//	files/     the program's own: its summary and its payload. A program that is confined can write nothing else here
//	asks/, answers/, questions  what the program asks, see package ask; asks/ belongs to the program
//	exit.json  how the run ended; made once, after everything else is in place
//	.spare-*   disk space for claim, child and exit.json
//	shim.log   what the shim itself had to say
//
// Environment variables are given from process to process and written nowhere.
package shim
