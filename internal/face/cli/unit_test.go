package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestTimeText checks that times in the future, such as the end of a retention, are not shown as past.
func TestTimeText(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := &session{program: &program{deps: Deps{Now: func() time.Time { return noon }}}}
	for d, want := range map[time.Duration]string{
		-time.Hour:         "2026-01-02T11:00:00Z (1h ago)",
		0:                  "2026-01-02T12:00:00Z (0s ago)",
		7 * 24 * time.Hour: "2026-01-09T12:00:00Z (in 7d)",
	} {
		require.Equal(t, want, s.timeText(timestamppb.New(noon.Add(d))))
	}
	require.Equal(t, "-", s.timeText(nil))
}

func TestTimeFlag(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m":                  "2026-11-22T08:30:00Z",
		"7d":                   "2026-11-15T10:00:00Z",
		"0s":                   "2026-11-22T10:00:00Z",
		"2026-11-01":           "2026-11-01T00:00:00Z",
		"2026-11-01 12:00:00":  "2026-11-01T12:00:00Z",
		"2026-11-01T10:30:00Z": "2026-11-01T10:30:00Z",
	} {
		got, err := parseTime(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, got.AsTime().Format(time.RFC3339), text)
	}
	for _, text := range []string{"never", "-5m", "d", "-1d", "7", "2026-13-01"} {
		_, err := parseTime(text, now)
		require.ErrorContains(t, err, "give a duration", text)
	}
}
