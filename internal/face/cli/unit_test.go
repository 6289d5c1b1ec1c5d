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

func TestDurations(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 42 * time.Second: "42s", 3*time.Minute + 59*time.Second: "3m", 5*time.Hour + time.Minute: "5h",
		47 * time.Hour: "47h", 12 * day: "12d", 400 * day: "1y35d",
	} {
		require.Equal(t, want, shortDuration(d))
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 44600 * time.Millisecond: "45s", 89 * time.Second: "1m29s", 5 * time.Minute: "5m", time.Hour - 300*time.Millisecond: "1h",
		90*time.Minute - 2*time.Second: "1h30m", day - time.Second: "1d", 7*day - 2*time.Second: "7d", 84 * time.Hour: "3d12h", 400*day - time.Minute: "400d",
	} {
		require.Equal(t, want, timeLeftText(d))
	}
	for d, want := range map[time.Duration]string{
		400 * time.Millisecond: "0s", 42 * time.Second: "42s", 192 * time.Second: "3m12s", 2*time.Hour + 5*time.Minute: "2h05m",
	} {
		require.Equal(t, want, longDuration(d))
	}
	require.Equal(t, "$0.0012", costText(0.0012))
	require.Equal(t, "$1.50", costText(1.5))
	require.Equal(t, "1.5 KiB", sizeText(1536))
}
