// Package wire is the one JSON form of Fleet's messages and errors, which REST, MCP and the CLI share: what a client
// may send, what it gets, and what an error looks like. It knows the messages by their descriptors only.
package wire
