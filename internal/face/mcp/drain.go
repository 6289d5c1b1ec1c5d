package mcp

import (
	"context"
	"io"
	"os"
	"time"
)

// drainPause is the longest time between two checks, and the whole time to wait if the system cannot tell how much the
// client has read.
const drainPause = 5 * time.Millisecond

// drain waits until the client has read everything written to out, limit is over, or ctx is done. It separates a call's progress
// from its result where a ping cannot: see pinger.
func drain(ctx context.Context, out io.Writer, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, _ := out.(*os.File)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, drainPause) {
		n, known := unread(f)
		if known && n == 0 {
			return
		}
		if !known {
			pause = drainPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !known {
			return
		}
	}
}
