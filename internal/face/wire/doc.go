// Package wire is the JSON form of Fleet's messages and errors, shared by REST, MCP and the CLI: what a client may
// send, what it gets, and what an error looks like. The descriptors of the messages say what is read and written.
//
// REST, MCP and the CLI use it. It must never know a particular message or a rule about its values: the core decides
// what a value means.
package wire
