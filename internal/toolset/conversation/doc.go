// Package conversation has the code that toolsets with conversations share. Turns lets one message at a time into each
// conversation. Sweeper runs the periodic search for agents that interrupted calls have left behind.
package conversation
