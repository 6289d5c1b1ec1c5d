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
