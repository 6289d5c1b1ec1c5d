// Package acp runs a program that speaks the Agent Client Protocol (agentclientprotocol.com) on one task.
//
// Main is a process between the supervisor of a run and the program. It belongs to the run, so it survives the server
// as the run does. It starts the program, speaks the protocol over the program's standard input and output, and writes
// events as lines of JSON to its own output, where the parser of package driver reads them. Messages arrive as lines of
// JSON strings. TERM cancels the turn and ends the program.
//
// Every request except the prompt has a time limit, and every request of the program is answered at once, so a program
// that speaks another protocol cannot hang the run. The process must never grant a permission that the run's policy
// does not allow.
package acp
