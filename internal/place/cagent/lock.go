//go:build cgo

package cagent

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"fleet/internal/place/agentfile"
)

const (
	lockTime  = 10 * time.Second     // how long to wait for a lock
	lockAgain = 5 * time.Millisecond // interval between attempts
)

func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// unlock unlocks and closes the file. Closing alone is not enough, because a child process may still have the file open
// for a moment.
func unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// locked calls do while it holds the lock of the directory, which excludes other goroutines and processes. It waits for
// the lock for up to lockTime, and returns an error if another holder keeps it.
func (h home) locked(ctx context.Context, do func() error) error {
	f, err := agentfile.Create(h.path(".lock"))
	if err != nil {
		return errors.New("cannot lock the directory")
	}
	defer func() { _ = unlock(f) }()
	for begun := time.Now(); ; {
		err := flock(f)
		switch {
		case err == nil:
			return do()
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return errors.New("cannot lock the directory")
		case time.Since(begun) > lockTime:
			return errors.New("another run has locked the directory: try again later")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockAgain):
		}
	}
}
