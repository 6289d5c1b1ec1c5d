// Package telemetry shows operators what the server does. It has metrics for Prometheus and traces for OpenTelemetry. It
// adds ids to log lines, so that operators can find the call and the trace of a line.
//
// Package app creates it, and puts its decorators around the store and the places. Package admission reports calls to it.
// When Prometheus scrapes the server, it reads figures that other packages count. The package must never change what the
// decorated parts do. No label, attribute or log line that it adds may name a principal or contain a secret or the text of
// a task.
package telemetry
