// Package rpc is the gRPC face. It turns requests into calls of the core, results into messages, and core errors into
// statuses. REST, MCP and the CLI reach the core through it, so its interceptors do what every call needs: they
// identify the caller, recover from panics, and log.
//
// It is the only face that imports the core. It must never have rules of its own, because code that calls the core
// directly would not follow them.
package rpc
