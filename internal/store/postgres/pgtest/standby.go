package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartStandby creates a standby of the server and starts it. From then on, the server confirms a commit only after the
// standby has it.
func (s *Server) StartStandby() (_ *Server, err error) {
	standby := &Server{bin: s.bin, settings: s.settings, smallDisk: s.smallDisk}
	if err := standby.makeDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, standby.removeDir())
		}
	}()
	var out bytes.Buffer
	basebackup := standby.Command("pg_basebackup", "-h", s.Dir, "-U", superuser, "-D", standby.data(), "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	basebackup.Stdout, basebackup.Stderr = &out, &out
	if err := basebackup.Run(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out.Bytes())
	}
	// After its promotion, the standby has no standby of its own, so its commits must not wait for one.
	f, err := os.OpenFile(filepath.Join(standby.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("synchronous_standby_names = ''\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := standby.Restart(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, statement := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
		if err := s.Exec(ctx, "postgres", statement); err != nil {
			return nil, errors.Join(err, standby.Kill())
		}
	}
	if err := s.WaitForStandby(ctx); err != nil {
		return nil, errors.Join(err, standby.Kill())
	}
	return standby, nil
}

// WaitForStandby waits until the server's standby has all of the server's data, and the server's commits wait for the
// standby.
func (s *Server) WaitForStandby(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for {
		var ok bool
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync' AND flush_lsn >= pg_current_wal_flush_lsn())`).Scan(&ok)
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond): // the server does not signal this
		}
	}
}

// Promote makes a standby accept writes, and waits for that. The standby's primary must have ended.
func (s *Server) Promote(ctx context.Context) error {
	return s.Exec(ctx, "postgres", `SELECT pg_promote(true, 60)`)
}
