package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// diskSize is the size of a small disk. It is several times the size of an empty database with its largest write-ahead
// log.
const diskSize = "640m"

// StartOnSmallDisk starts a server whose directory is a small file system in memory, which Fill fills. Each standby of the
// server has a small file system of its own. The error of StartOnSmallDisk wraps EPERM if this user may not mount a file system.
func StartOnSmallDisk() (*Server, error) {
	return startServer(&Server{smallDisk: true, settings: []string{"min_wal_size=32MB", "max_wal_size=64MB", "wal_keep_size=64MB"}})
}

func mount(dir string) error {
	if err := syscall.Mount("fleet-pg", dir, "tmpfs", 0, "mode=0700,size="+diskSize); err != nil {
		return fmt.Errorf("mount a file system in memory: %w", err)
	}
	return nil
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// Fill fills the small disk of the server. The caller must call Free afterwards.
func (s *Server) Fill() error {
	f, err := os.Create(s.ballast())
	if err != nil {
		return err
	}
	for piece := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(piece)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// Free frees the disk that Fill has filled. If the server has ended, for example because it could not write its log, Free
// starts it again.
func (s *Server) Free() error {
	if err := os.Remove(s.ballast()); err != nil {
		return err
	}
	err := s.awaitReady()
	select {
	case <-s.done:
		return s.Restart()
	default:
		return err
	}
}

func (s *Server) ballast() string { return filepath.Join(s.Dir, "ballast") }

// FillLog writes to the write-ahead log until the log has no room, which ends all connections. The disk must already be
// full.
func (s *Server) FillLog(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for range 1000 {
		if _, err := conn.Exec(ctx, `SELECT pg_logical_emit_message(false, 'fleet', 'x'), pg_switch_wal()`); err != nil {
			if conn.IsClosed() {
				return nil
			}
			return err
		}
	}
	return errors.New("the write-ahead log still grows although the disk should be full")
}
