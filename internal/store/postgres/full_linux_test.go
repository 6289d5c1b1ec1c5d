package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// TestFullDisk fills the disk with the database's tables while a store is used, and frees it again. Afterwards the log
// must have all acknowledged events, and no refused ones.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	pgtest.SkipUnlessEnabled(t)
	server, err := pgtest.Start("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	disk := smallDisk(t, server.Dir)
	conn := dial(t, server.URL("postgres"))
	for _, statement := range []string{`CREATE TABLESPACE small LOCATION '` + filepath.Join(disk, "tables") + `'`, `CREATE DATABASE small TABLESPACE small TEMPLATE template0`} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	s, err := postgres.Open(t.Context(), server.URL("small"), postgres.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()

	var acknowledged []string
	written, unknown := 0, 0
	appendOutput := func() error {
		written++
		e := &fleet.Event{Type: fleet.EventTaskOutput, AgentUID: "u1", Status: strconv.Itoa(written), Text: strings.Repeat("x", 50_000)}
		err := s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Append(e) })
		switch {
		case err == nil:
			acknowledged = append(acknowledged, e.Status)
		case fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable: // the event may be in the inbox
			unknown++
		}
		return err
	}
	require.NoError(t, appendOutput())
	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	for err = nil; err == nil; { // the first events may still fit into existing pages
		require.Less(t, len(acknowledged), 2000)
		err = appendOutput()
	}
	if unknown == 0 {
		require.ErrorIs(t, err, fleet.ErrStoreFull)
	}
	waittest.Until(t, "space may become free for a moment", func() bool {
		_ = appendOutput()
		_, full := s.Full()
		return full
	})
	_, err = s.LastSeq(t.Context())
	require.NoError(t, err, "reads must work on a full disk")

	require.NoError(t, os.Remove(filler))
	waittest.Until(t, "the store tries again after a time", func() bool { return appendOutput() == nil })
	waittest.Until(t, "a write must succeed some time after the last failure", func() bool {
		_, full := s.Full()
		return appendOutput() == nil && !full
	})
	var got []string
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		events, err := tx.Events(fleet.EventFilter{}, fleet.EventWindow{Limit: 3000})
		for _, e := range events {
			got = append(got, e.Status)
		}
		return err
	}))
	require.Subset(t, got, acknowledged)
	require.LessOrEqual(t, len(got), len(acknowledged)+unknown)
}

// smallDisk mounts a small file system in the directory, and creates the directory tables in it. Both have the same
// owner as the directory. smallDisk returns the path of the file system.
func smallDisk(t *testing.T, dir string) string {
	t.Helper()
	disk := filepath.Join(dir, "small")
	require.NoError(t, os.Mkdir(disk, 0o700))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // on Linux
	options := fmt.Sprintf("size=64m,mode=0700,uid=%d,gid=%d", owner.Uid, owner.Gid)
	if err := syscall.Mount("fleet-small", disk, "tmpfs", 0, options); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	tables := filepath.Join(disk, "tables")
	require.NoError(t, os.Mkdir(tables, 0o700))
	require.NoError(t, os.Chown(tables, int(owner.Uid), int(owner.Gid)))
	return disk
}

// fill writes into the file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for b := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(b)
	}
	require.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
}
