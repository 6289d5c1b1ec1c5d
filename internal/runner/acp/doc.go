// Package acp runs a program that speaks the Agent Client Protocol (agentclientprotocol.com) on one task.
//
// Main runs as a process between the supervisor of a run and the program. The process belongs to the run, so like the run it
// survives the end of the server. It starts the program, speaks the protocol over the program's standard input and
// output, and writes events as lines of JSON to its own output, where the parser of package driver reads them. Messages
// to the agent arrive in a mailbox. SIGTERM cancels the turn and ends the program.
//
// Every request except the prompt has a time limit, so a program that speaks another protocol cannot block the run. The
// process must never grant a permission that neither the run's policy nor a person allows.
package acp
