package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestFullness checks that a full disk is reported until a write has added something, or until no write has found the disk full for
// fullReportTime. Writes that add nothing can succeed on a full disk.
func TestFullness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f diskState
		shown := func() bool { _, full := f.fullWithin(fullReportTime); return full }
		noSpace := &pgconn.PgError{Code: codeDiskFull}
		require.False(t, shown())
		f.recordWrite(noSpace, false)
		begun := time.Now().UTC()
		time.Sleep(fullRetryInterval + 1)
		f.recordWrite(nil, false)
		f.recordWrite(noSpace, true)
		since, full := f.fullWithin(fullRetryInterval)
		require.True(t, full)
		require.Equal(t, begun, since)
		f.recordWrite(nil, true) // it may have begun before the disk was full
		require.True(t, shown())
		time.Sleep(fullRetryInterval + 1)
		_, full = f.fullWithin(fullRetryInterval)
		require.False(t, full, "the next write must be tried")
		require.True(t, shown())
		f.recordWrite(nil, true)
		require.False(t, shown())

		f.recordWrite(noSpace, true)
		time.Sleep(fullReportTime + 1)
		require.False(t, shown())
	})
}
