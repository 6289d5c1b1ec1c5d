package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// operationTimeout is how long an operation that must succeed may take.
const operationTimeout = waittest.Limit

// database is a primary with a synchronous standby. Their addresses are 0 and 1. A failover swaps their roles.
type database struct {
	fillable bool // its disk can be filled

	mu             sync.Mutex
	nodes          [2]*pgtest.Server // by address
	primaryAddress int               // the address of the primary
}

// startPostgres starts a server of Postgres without a standby, for a test that `make test-postgres` runs.
func startPostgres(t *testing.T) *pgtest.Server {
	t.Helper()
	pgtest.SkipUnlessEnabled(t)
	db, err := pgtest.Start("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Stop()) })
	return db
}

// newDatabase starts the database. If fillable is set, and the test may mount file systems, its disk is a small file system in
// memory, which FillDisk can fill.
func newDatabase(t *testing.T, fillable bool) *database {
	d := &database{fillable: fillable}
	start := func() (*pgtest.Server, error) { return pgtest.Start("") }
	if fillable {
		start = pgtest.StartOnSmallDisk
	}
	primary, err := start()
	if errors.Is(err, syscall.EPERM) {
		t.Logf("the disk of Postgres is not filled: %v", err)
		d.fillable = false
		primary, err = pgtest.Start("")
	}
	require.NoError(t, err)
	d.nodes[0] = primary
	t.Cleanup(func() {
		for _, n := range d.nodes {
			if n != nil {
				require.NoError(t, n.Stop())
			}
		}
	})
	standby, err := primary.StartStandby()
	require.NoError(t, err)
	d.nodes[1] = standby
	return d
}

// socket returns the path of the socket of the node at the address, or "" if no node runs there.
func (d *database) socket(address int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes[address] == nil {
		return ""
	}
	return d.nodes[address].Socket()
}

func (d *database) primary() *pgtest.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[d.primaryAddress]
}

// Restart ends the primary as a crash does, and starts it again after the downtime. It returns when the standby has caught
// up. Before that, a failover could lose commits that were not acknowledged but that readers have seen.
func (d *database) Restart(downtime time.Duration) error {
	p := d.primary()
	if err := p.Kill(); err != nil {
		return err
	}
	time.Sleep(downtime)
	if err := p.Restart(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	return p.WaitForStandby(ctx)
}

// FillDisk fills the disk of the primary, frees it after the duration, and returns when the standby has caught up. If fillLog is set,
// it also uses up the space that is left for the write-ahead log, so that Postgres ends all connections, and perhaps exits.
func (d *database) FillDisk(fillLog bool, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	p := d.primary()
	err := p.Fill()
	if err == nil && fillLog {
		err = p.FillLog(ctx)
	}
	time.Sleep(duration)
	if err = errors.Join(err, p.Free()); err != nil {
		return err
	}
	return p.WaitForStandby(ctx)
}

// FailOver ends the primary for good and promotes the standby. It calls onPromoted when the standby has become the primary,
// and then makes a new standby.
func (d *database) FailOver(onPromoted func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	d.mu.Lock()
	old, next := d.nodes[d.primaryAddress], d.nodes[1-d.primaryAddress]
	d.nodes[d.primaryAddress] = nil
	d.mu.Unlock()
	if err := old.Stop(); err != nil {
		return err
	}
	if err := next.Promote(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.primaryAddress = 1 - d.primaryAddress
	free := 1 - d.primaryAddress
	d.mu.Unlock()
	onPromoted()
	standby, err := next.StartStandby()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[free] = standby
	return nil
}

// urlThrough returns the URL with which the server reaches the nodes of the database through the links.
func urlThrough(server string, links [2]*pgtest.Link) string {
	q := url.Values{"application_name": {server}, "target_session_attrs": {"read-write"}, "sslmode": {"disable"}, "user": {"fleet"}, "connect_timeout": {"2"}}
	return fmt.Sprintf("postgres://127.0.0.1:%d,127.0.0.1:%d/postgres?%s", links[0].Port(), links[1].Port(), q.Encode())
}
