//go:build cgo

package run

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"fleet/internal/fleet"
)

const (
	allowanceInterval = 50 * time.Millisecond // how often a waiting request checks whether the allowance has grown
	allowanceNotice   = time.Second           // how long a request waits before the run reports that it waits
)

// awaitAllowance waits until the usage is below the allowance. It returns false if the run must end or ctx is done before that.
// The run compares the figures itself, so even without a server it exceeds its allowance by at most one answer for each
// concurrent request.
func (g *gate) awaitAllowance(ctx context.Context) bool {
	for start, reported := time.Now(), false; g.allowanceUsedUp(); {
		select {
		case <-time.After(allowanceInterval): // the server replaces the file
		case <-g.quit:
			return false
		case <-ctx.Done():
			return false
		}
		if !reported && time.Since(start) > allowanceNotice {
			reported = true
			g.onWait()
		}
	}
	return true
}

// allowanceUsedUp reports whether the run has used its allowance. It returns false if the run has no allowance, and true if the
// allowance cannot be read.
func (g *gate) allowanceUsedUp() bool {
	if g.allowancePath == "" {
		return false
	}
	data, err := os.ReadFile(g.allowancePath)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	var a fleet.Amount
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		g.log.Error("cannot read what the run may use", "error", err)
		return true
	}
	usage, usd := g.usageSoFar()
	return a.Micros > 0 && fleet.MicrosOf(usd) >= a.Micros || a.Tokens > 0 && usage.InputTokens+usage.OutputTokens >= a.Tokens
}
