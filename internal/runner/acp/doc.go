// Package acp runs a program that speaks the Agent Client Protocol (agentclientprotocol.com) on one task.
//
// Main is a process of its own between the supervisor of a run and the program: it belongs to the run, so it survives the
// server as the run does. It starts the program, speaks the protocol with it over its standard input and output, and
// writes what happens as lines of JSON to its own output, where the driver's parser reads them. Messages come as lines of
// JSON strings. TERM cancels the turn and ends the program.
//
// Every request but the prompt has a time limit, and every request of the program is answered at once, so a program that
// speaks another protocol cannot hang the run.
package acp
