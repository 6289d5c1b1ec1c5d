// Package telemetry shows operators what the server does: metrics for Prometheus, traces for OpenTelemetry, and ids in
// log lines that lead from one to the other.
//
// Package app creates it, and puts its decorators around the store and the places. The faces report their calls to it.
// What others count, it reads when Prometheus asks. It must never change what the decorated parts do, and no label,
// attribute or log line that it adds may name a principal or hold a secret or the text of a task.
package telemetry
