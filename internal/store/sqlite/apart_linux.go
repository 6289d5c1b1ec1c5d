package sqlite

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// apart opens a file, calls f with it and closes it. A process that closes a file loses all its locks on the file (fcntl(2),
// "Advisory record locking"), also those that SQLite relies on. Locks belong to a table of open files, so this is done by a
// thread that has a table of its own.
func apart(path string, flag int, f func(fd int) error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if unix.Gettid() == os.Getpid() {
			err = apart(path, flag, f) // on another thread, since the main thread cannot end
			runtime.UnlockOSThread()
			return
		}
		// The table begins as a copy. The runtime may poll the network on this thread, and must find its files.
		if err = unix.Unshare(unix.CLONE_FILES); err != nil {
			return
		}
		var fd int
		if fd, err = unix.Open(path, flag|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		defer func() { _ = unix.Close(fd) }()
		err = f(fd)
	}()
	<-done
	return err
}
