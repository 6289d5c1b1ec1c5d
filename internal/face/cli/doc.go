// Package cli is the command line of Fleet: a client of the gRPC API like any other. It prints tables for people and
// the API's own JSON or YAML for machines, follows running tasks through restarts of the server, and ends with exit
// codes that scripts can use.
package cli
