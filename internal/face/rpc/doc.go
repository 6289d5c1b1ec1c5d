// Package rpc is the gRPC face. It turns requests into calls of the core, and results into messages. REST, MCP and the CLI
// reach the core through it. Package admission wraps its calls and turns core errors into statuses.
//
// Functions whose names end with Of convert values of the core to messages. Those whose names end with In convert requests.
//
// It is the only face that imports the core. It must never have rules of its own, because code that calls the core
// directly would not follow them.
package rpc
