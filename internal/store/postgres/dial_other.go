//go:build !linux

package postgres

import "syscall"

// limitSilence does nothing on this system. Here only connections without unacknowledged data fail early, by
// keep-alive.
func limitSilence(string, string, syscall.RawConn) error { return nil }
