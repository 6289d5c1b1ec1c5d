package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// addSeconds adds a flag that takes a duration of at least a second.
func addSeconds(cmd *cobra.Command, name, usage string, set func(seconds int32)) {
	cmd.Flags().Func(name, usage, func(text string) error {
		d, err := duration(text)
		if err != nil || d < time.Second || d > math.MaxInt32*time.Second {
			return errors.New("give at least one second, with a unit, such as 30s, 45m, 12h or 90d")
		}
		set(int32(math.Ceil(d.Seconds())))
		return nil
	})
	complete(cmd, name, cobra.NoFileCompletions)
}

// duration parses a duration. Unlike time.ParseDuration, it accepts days: 7d.
func duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// timeBefore parses a point in time: a date, an RFC 3339 time, or an age such as 90m, 24h or 7d.
func timeBefore(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if d, err := duration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, usagef("--since is %q: give a duration such as 90m, 24h or 7d, or a time such as 2026-11-01 or 2026-11-01T10:30:00Z", text)
}
