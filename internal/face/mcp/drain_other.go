//go:build !linux

package mcp

import "os"

// unread knows nothing here.
func unread(*os.File) (n int, known bool) { return 0, false }
