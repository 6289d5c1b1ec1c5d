// Package rpc is the gRPC face. It turns requests into calls of the core, results into responses, and core errors into
// statuses. It has no rules of its own. REST, MCP and the CLI reach the core through it, so its interceptors do what
// every call needs: identification of the caller, recovery from panics, and the log.
package rpc
