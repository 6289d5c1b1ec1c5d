package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestDiskState checks that a full disk is reported until a write has added something, or until no write has found the disk full for
// fullReportTime. Writes that add nothing can succeed on a full disk.
func TestDiskState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diskState
		isReported := func() bool { _, full := d.fullWithin(fullReportTime); return full }
		noSpace := &pgconn.PgError{Code: codeDiskFull}
		require.False(t, isReported())
		d.recordWrite(noSpace, false)
		begun := time.Now().UTC()
		time.Sleep(fullRetryInterval + 1)
		d.recordWrite(nil, false)
		d.recordWrite(noSpace, true)
		since, full := d.fullWithin(fullRetryInterval)
		require.True(t, full)
		require.Equal(t, begun, since)
		d.recordWrite(nil, true) // it may have begun before the disk was full
		require.True(t, isReported())
		time.Sleep(fullRetryInterval + 1)
		_, full = d.fullWithin(fullRetryInterval)
		require.False(t, full, "the next write must be tried")
		require.True(t, isReported())
		d.recordWrite(nil, true)
		require.False(t, isReported())

		d.recordWrite(noSpace, true)
		time.Sleep(fullReportTime + 1)
		require.False(t, isReported())
	})
}
