//go:build !linux

package postgres

import "syscall"

// setAckTimeout does nothing on this system. Here only connections without unacknowledged data fail early, by
// keep-alive.
func setAckTimeout(string, string, syscall.RawConn) error { return nil }
