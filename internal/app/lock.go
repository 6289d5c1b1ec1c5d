package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// lockFile is a file in the data directory. The process that uses the data keeps it locked. It contains the holder.
	lockFile = "lock"
	// lockWait is how long a process waits for the lock. A server that was killed holds it until the kernel has removed
	// its process.
	lockWait          = 2 * time.Second
	lockRetryInterval = 20 * time.Millisecond
	maxHolderBytes    = 4096 // how much of a lock file is read
)

// dataLock is the lock of a data directory. Only one process may act on the agents in a data directory, whichever store
// it uses. The kernel releases the lock when the process ends, however it ends.
type dataLock struct{ file *os.File }

// holder describes the process that holds the lock of a data directory, for people.
type holder struct {
	PID  int    `json:"pid"`
	Host string `json:"host,omitempty"`
	GRPC string `json:"grpc,omitempty"` // address at which it serves gRPC; empty if it serves nobody
}

// inUseError says that another process holds the lock of a data directory.
type inUseError struct {
	dir    string
	holder holder // zero if it is unknown
}

// Error implements error.
func (e *inUseError) Error() string {
	if e.holder.GRPC == "" {
		return fmt.Sprintf("the data directory %s is in use by %s: wait until it ends, or run one server with `fleet serve` for all commands", e.dir, e.holder)
	}
	return fmt.Sprintf("the data directory %s is in use by %s: use that server, or stop it first; several servers need Postgres and a data directory each", e.dir, e.holder)
}

// String returns the process and its address in words.
func (h holder) String() string {
	if h.PID == 0 {
		return "another process"
	}
	text := fmt.Sprintf("process %d", h.PID)
	if host, err := os.Hostname(); err == nil && h.Host != host { // the directory is on a network file system, or in another container
		text += fmt.Sprintf(" on %q", h.Host)
	}
	if h.GRPC != "" {
		text += ", which serves gRPC at " + strings.Map(replaceControl, h.GRPC)
	}
	return text
}

// lockData locks the data directory for this process, and creates the directory if it does not exist. If another
// process holds the lock, it waits for up to lockWait, and then returns an inUseError.
func lockData(dir string) (*dataLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600) //nolint:gosec // in our data directory
	if err != nil {
		return nil, err
	}
	for start := time.Now(); ; time.Sleep(lockRetryInterval) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) && time.Since(start) < lockWait {
			continue
		}
		if err != nil {
			return nil, errors.Join(lockError(dir, err, readHolder(f)), f.Close())
		}
		l := &dataLock{f}
		l.writeHolder("")
		return l, nil
	}
}

// lockError returns the error for err, an error of flock. h is the holder of the lock, if it is known.
func lockError(dir string, err error, h holder) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &inUseError{dir, h}
	}
	return fmt.Errorf("cannot lock the data directory %s: its file system has no locks (%w): set data (FLEET_DATA) to a directory on a disk of this machine", dir, err)
}

// writeHolder writes the holder of the lock into the lock file, for other processes. grpc is the address at which this process
// serves gRPC, or "" if it serves nobody. writeHolder ignores errors, for example of a full disk: the lock holds without the
// description.
func (l *dataLock) writeHolder(grpc string) {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, GRPC: grpc})
	if err != nil {
		return
	}
	if _, err := l.file.WriteAt(text, 0); err == nil { // readers ignore what follows the first object
		_ = l.file.Truncate(int64(len(text)))
	}
}

// release unlocks the directory. Closing the file is not enough, because a child process may still have it open for a
// moment.
func (l *dataLock) release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// readHolder returns the holder that the lock file names, or a zero holder.
func readHolder(f io.ReaderAt) (h holder) {
	if err := json.NewDecoder(io.NewSectionReader(f, 0, maxHolderBytes)).Decode(&h); err != nil {
		return holder{}
	}
	return h
}

// holderOf returns the process that holds the lock of the data directory. ok is false if none does, or if the lock
// cannot be examined.
func holderOf(dir string) (h holder, ok bool) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|syscall.O_NOFOLLOW, 0) //nolint:gosec // in our data directory
	if err != nil {
		return h, false
	}
	defer func() { _ = f.Close() }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return h, false // closing the file releases the lock; a server that starts meanwhile tries again
	}
	return readHolder(f), true
}
