// Package conversation has what the toolsets with conversations share: one message at a time in each, and the periodic
// search for what interrupted calls have left behind.
package conversation
