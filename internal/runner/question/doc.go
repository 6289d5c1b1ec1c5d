// Package question lets an agent's program ask for permission to use a tool, or ask a question that a person answers.
//
// The program may be confined and unable to connect to the supervisor of its run, so both use files in the run's
// directory:
//
//	asks/pipe       a named pipe that the supervisor reads: "ask NAME", "got NAME" or "drop NAME", one per line
//	asks/NAME.json  a Question, written by the program, which can write the directory asks
//	answers/NAME    the Answer, written by the supervisor; a confined program can only read it
//	questions       a Record for each event of a question, written by the supervisor and read by Fleet
//
// The supervisor must never trust the directory asks. Fleet records only answers that the supervisor received over its
// control socket, or that the run's policy gave. A program that forges an answer deceives only itself, because the
// program itself enforces its permissions.
//
// Package shim implements the supervisor's side, and Ask the program's side. Main calls Ask in a child of the agent's program. The
// clients of packages acp and claude call it for the program.
package question
