//go:build !linux

package mcp

import "os"

// unread is not available on this system.
func unread(*os.File) (n int, known bool) { return 0, false }
