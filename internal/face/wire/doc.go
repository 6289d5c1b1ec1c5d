// Package wire reads and writes the JSON form of Fleet's messages and errors, which REST, MCP and the CLI share. The
// descriptors of the messages say what is read and written.
//
// The package must never know a particular message of the API, or a rule about its values: the core decides what a value
// means.
package wire
