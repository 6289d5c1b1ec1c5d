// Package wire is the JSON form of Fleet's messages and errors, shared by REST, MCP and the CLI: what a client may
// send, what it gets, and what an error looks like. It knows the messages only by their descriptors.
package wire
