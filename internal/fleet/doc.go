// Package fleet is the core: what agents, tasks, events and principals are, the rules they live by, and the two ports
// that the rest of the program plugs into: Backend hosts agents, Store keeps what is known of them.
//
// Service is what callers use; it decides, and changes the store. Reconciler is what makes the world follow: it alone
// talks to the backend about agents and tasks. Neither knows of gRPC, REST, MCP, SQL or Coder; the package imports the
// standard library only, and a test says so.
package fleet
