// Package cli is the command line of Fleet, an ordinary client of the gRPC API. It prints tables for people and the
// API's JSON or YAML for programs, follows running tasks across server restarts, and exits with codes that scripts can
// use.
package cli
