// Package conversation has the code that toolsets with conversations share. Turns lets one message at a time into each
// conversation. Warnings collects the warnings of a task. Sweeper runs the periodic search for agents that interrupted calls have left behind.
package conversation
