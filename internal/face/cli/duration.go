package cli

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// duration parses a duration. Unlike time.ParseDuration, it accepts days: 7d.
func duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// timeFlag parses the value of the flag, a point in time: a date, an RFC 3339 time, or an age such as 90m, 24h or 7d. It
// returns nil if the value is empty.
func timeFlag(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the flag is not given
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return timestamppb.New(at), nil
		}
	}
	if d, err := duration(text); err == nil && d >= 0 {
		return timestamppb.New(now.Add(-d)), nil
	}
	return nil, usagef("--%s is %q: give a duration such as 90m, 24h or 7d, or a time such as 2026-11-01 or 2026-11-01T10:30:00Z", flag, text)
}
