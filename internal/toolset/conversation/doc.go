// Package conversation has the code that toolsets with conversations share. Turns lets one message at a time into each
// conversation. Warnings collects the warnings of a task. Failure says why a task did not complete. Sweeper calls a
// function periodically, for example to find agents that interrupted calls have left behind.
//
// The toolsets call this package. It must never call a service, a place or a toolset.
package conversation
