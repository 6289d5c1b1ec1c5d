// Package fleet defines the nouns of the domain: agents, tasks, events, principals and errors. It has the rules that
// concern only one noun. It also defines the interfaces that the rest of the program implements: a Place hosts agents, a
// Runner executes their runs, a Catalog has definitions of agents, and a Store keeps the data.
//
// The package does no I/O. Package service implements the calls, package reconcile brings the places to the desired
// state, and package state has what both need. The package imports only the standard library; a test checks that.
package fleet
