package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Run works like cmd.Run, but it never loses output of the program, even if it reads the output late. After the
// program's end, other processes may keep the output open, for example a daemon. Run reads their output too, until
// maxWait has passed or ctx is done.
//
// So cmd.WaitDelay limits only how long the program may take to end after the command's context is done, and how long
// cmd.Stdin may be copied after the program's end.
func Run(ctx context.Context, cmd *exec.Cmd, maxWait time.Duration) error {
	readers, writers := map[io.Writer]*os.File{}, map[io.Writer]*os.File{}
	closeAll := func(files map[io.Writer]*os.File) {
		for _, f := range files {
			_ = f.Close()
		}
	}
	for _, output := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		to := *output
		if _, ok := to.(*os.File); ok || to == nil {
			continue
		}
		if writers[to] == nil {
			r, w, err := os.Pipe()
			if err != nil {
				closeAll(readers)
				closeAll(writers)
				return err
			}
			readers[to], writers[to] = r, w
		}
		*output = writers[to]
	}
	err := cmd.Start()
	closeAll(writers)
	if err != nil {
		closeAll(readers)
		return err
	}
	copyErrs := make(chan error, len(readers))
	for to, from := range readers {
		go func() { copyErrs <- Copy(to, from) }()
	}
	if err = cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) { // the program succeeded without reading all of its input
		err = nil
	}
	waitCtx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	defer context.AfterFunc(waitCtx, func() {
		for _, from := range readers {
			_ = from.SetReadDeadline(time.Now())
		}
	})()
	for range readers {
		if e := <-copyErrs; err == nil {
			err = e
		}
	}
	return err
}

// Copy copies from the pipe until its end or its read deadline, and closes it. After the deadline it copies the rest
// of the data in the pipe, without waiting for more. So the output of processes that ended before the deadline is complete.
func Copy(to io.Writer, from *os.File) error {
	defer func() { _ = from.Close() }()
	buffer := make([]byte, 64<<10)
	_, err := io.CopyBuffer(to, struct{ io.Reader }{from}, buffer)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	conn, err := from.SyscallConn()
	if err != nil {
		return err
	}
	var drainErr error
	err = conn.Control(func(fd uintptr) { drainErr = drainPipe(to, int(fd), buffer) })
	return errors.Join(err, drainErr)
}

// maxPipe is the largest size of a pipe that a process may choose without privileges, in bytes.
const maxPipe = 1 << 20

// drainPipe copies the data in the pipe without waiting for more. It stops after about maxPipe bytes, because a process may
// keep writing.
func drainPipe(to io.Writer, fd int, buffer []byte) error {
	for remaining := maxPipe; remaining > 0; {
		n, err := syscall.Read(fd, buffer)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN), err == nil && n == 0:
			return nil
		case err != nil:
			return err
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return err
		}
		remaining -= n
	}
	return nil
}
