// Package rpc is the gRPC face: it turns requests into calls of the core and their results into responses, and core
// errors into statuses. It decides nothing. REST, MCP and the CLI reach the core through it, so what every call needs
// (who calls, recovery, the log) is here, once, as interceptors.
package rpc
