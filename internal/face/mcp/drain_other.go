//go:build !linux

package mcp

import "os"

// unread returns false, because this system cannot tell how much the other end has read.
func unread(*os.File) (n int, known bool) { return 0, false }
