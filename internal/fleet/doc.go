// Package fleet has the nouns of the domain: agents, tasks, events, principals and errors, with the rules that need
// nothing but the noun itself. It also has the two ports that the rest of the program implements: a Place hosts agents,
// and a Store keeps what is known of them.
//
// No work is done here. Package service implements the calls, package reconcile makes the places do what is wanted, and package
// state has what both need. The package imports only the standard library, and a test checks that.
package fleet
