package sqlite

import (
	"context"
	"database/sql"
	"os"
	"time"
)

const (
	// checkpointPause is the shortest time between two checkpoints by the checkpointer.
	checkpointPause = 200 * time.Millisecond
	// checkpointSize is the smallest size of the log, in bytes, at which it is copied.
	checkpointSize = 1 << 20
)

// checkpointer copies committed pages from the write-ahead log into the file, concurrently with the writer. Without it,
// a commit that finds the log too long would copy the pages while all other writers wait, which takes a quarter of a
// second on a slow disk.
type checkpointer struct {
	db              *sql.DB
	logPath         string // path of the write-ahead log
	afterCheckpoint func() // called after each checkpoint
	commits         chan struct{}
	stop            context.CancelFunc
	done            chan struct{}
}

// newCheckpointer starts a checkpointer, which close stops.
func newCheckpointer(db *sql.DB, path string, afterCheckpoint func()) *checkpointer {
	ctx, stop := context.WithCancel(context.Background())
	c := &checkpointer{db: db, logPath: path + "-wal", afterCheckpoint: afterCheckpoint, commits: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	go c.run(ctx)
	return c
}

// notifyCommit notifies the checkpointer of a commit.
func (c *checkpointer) notifyCommit() {
	select {
	case c.commits <- struct{}{}:
	default: // a notification is pending
	}
}

func (c *checkpointer) run(ctx context.Context) {
	defer close(c.done)
	pause := time.NewTimer(checkpointPause)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-c.commits:
		case <-ctx.Done():
			return
		}
		if log, err := os.Stat(c.logPath); err == nil && log.Size() >= checkpointSize {
			// The passive mode does not wait. It leaves pages that are in use for the next checkpoint or a commit.
			_, _ = c.db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
			c.afterCheckpoint()
		}
		pause.Reset(checkpointPause)
	}
}

func (c *checkpointer) close() {
	c.stop()
	<-c.done
}
