// Package fleet is the core: agents, tasks, events and principals, their rules, and the two ports that the rest of the
// program implements. A Place hosts agents, and a Store keeps what is known of them.
//
// Callers use the Service, which decides and changes the store. The Reconciler makes the places follow: only it talks
// to them about agents and tasks. Neither depends on gRPC, REST, MCP, SQL or Coder. The package imports only the
// standard library, and a test checks that.
package fleet
