//go:build cgo && !linux

package run

// makeUndumpable does nothing on this system.
func makeUndumpable() error { return nil }
