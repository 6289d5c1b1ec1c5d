package sqlite

import (
	"context"
	"database/sql"
	"os"
	"time"
)

const (
	// checkpointPause is how long writes are gathered before they are copied from the log into the file.
	checkpointPause = 200 * time.Millisecond
	// checkpointSize is how large the log must be for that to be worth it, in bytes.
	checkpointSize = 1 << 20
)

// checkpointer copies what was committed from the write-ahead log into the file, beside the writer. Else the commit that
// finds the log too long does it, and everybody waits while it does: a quarter of a second on a slow disk.
type checkpointer struct {
	db    *sql.DB
	log   string // path of the write-ahead log
	after func() // called when it has copied
	wrote chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

func newCheckpointer(db *sql.DB, path string, after func()) *checkpointer {
	ctx, stop := context.WithCancel(context.Background())
	c := &checkpointer{db: db, log: path + "-wal", after: after, wrote: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	go c.run(ctx)
	return c
}

// committed says that there is something new in the log.
func (c *checkpointer) committed() {
	select {
	case c.wrote <- struct{}{}:
	default: // it will look anyway
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
		case <-c.wrote:
		case <-ctx.Done():
			return
		}
		if log, err := os.Stat(c.log); err == nil && log.Size() >= checkpointSize {
			// It copies what it can and waits for nobody. What it cannot is left to the next time, or to a commit.
			_, _ = c.db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
			c.after()
		}
		pause.Reset(checkpointPause)
	}
}

func (c *checkpointer) close() {
	c.stop()
	<-c.done
}
