// Package claude talks to Claude Code in a conversation over its standard input and output (stream-json).
//
// Main runs as a process between the supervisor of a run and Claude Code. The process belongs to the run, so it survives
// the server as the run does. It sends the prompt and the messages of the run's mailbox, each with an id of its own. It
// answers requests for permission, and it serves the tool ask_user. All other lines of Claude Code become the output of
// the run, where the parser of package driver reads them. SIGTERM interrupts the turn and ends the program.
//
// Claude Code drops a message whose id it has begun before, also in a resumed conversation. It reports when it hands a
// message to the model. The mailbox counts a message as delivered at that moment, so each message arrives once.
//
// The control protocol is not documented. The package ignores what it does not know, and answers every request, because
// Claude Code waits for answers without a time limit.
package claude
