// Package ask lets the program of an agent ask: whether it may use a tool, or a question that a person answers.
//
// The program is confined and cannot connect to the supervisor of its run, so both use files of the run's directory:
//
//	asks/pipe       a named pipe that the supervisor reads: "ask NAME", "got NAME" or "drop NAME", a line each
//	asks/NAME.json  a Question, of the program. The program may write the directory asks
//	answers/NAME    the Answer, of the supervisor. A program that is confined can only read it
//	questions       a Record for each thing that happens to a question, of the supervisor; Fleet reads it
//
// The supervisor trusts nothing in the directory asks. What Fleet records of an answer is what came to the supervisor over
// its control socket, or what the run's policy says. A program that writes an answer to itself deceives itself alone: about
// a permission that the program itself enforces.
package ask
