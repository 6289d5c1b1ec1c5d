//go:build cgo && !linux

package cagent

// makeUndumpable does nothing on this system.
func makeUndumpable() error { return nil }
