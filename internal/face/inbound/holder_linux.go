package inbound

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// isHolderConfined reports whether a confined program holds the socket: a program with no_new_privs and more system call
// filters than this process. A program can get rid of neither. Without this check a sandboxed program would count as
// the user it runs as. It returns errSocketNotFound if no readable process holds the socket, and errHidden if a confined process
// may hold it.
func isHolderConfined(inode string) (bool, error) {
	self, err := statusOf("self")
	if err != nil {
		return false, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	found := false // several processes may hold the socket, and one confined process is enough
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		isHolder, err := holdsSocket(e.Name(), inode)
		if err != nil {
			err = checkHidden(e.Name(), inode, self)
		}
		if err != nil {
			return false, err
		}
		if !isHolder {
			continue
		}
		s, err := statusOf(e.Name())
		if err != nil || s.isMoreConfinedThan(self) {
			return true, err
		}
		found = true
	}
	if !found {
		return false, errSocketNotFound
	}
	return false, nil
}

// checkHidden returns errHidden if the process, whose descriptors this process may not read, may be a confined holder of the
// socket. self is the status of this process. A program can hide its descriptors: see prctl(PR_SET_DUMPABLE).
//
// Browsers and model runs also hide their descriptors, so not every hidden process counts. A confined program runs as the user of
// this process and can get a connection only from the program that confined it, which is its nearest ancestor without confinement.
// A process in another pid namespace does not count: the supervisor of a run there does not give the run a connection.
func checkHidden(pid, inode string, self processStatus) error {
	s, err := statusOf(pid)
	for err == nil && s.user == self.user && s.depth == self.depth && s.isMoreConfinedThan(self) {
		if pid = s.parent; pid == "0" {
			return errHidden
		}
		if s, err = statusOf(pid); err == nil && !s.isMoreConfinedThan(self) {
			if isHolder, holdsErr := holdsSocket(pid, inode); isHolder || holdsErr != nil {
				return errHidden
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil // the process has ended
	}
	return err
}

// holdsSocket reports whether the process has the socket open. It returns an error if this process may not know that.
func holdsSocket(pid, inode string) (bool, error) {
	dir := filepath.Join("/proc", pid, "fd")
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		target, lerr := os.Readlink(filepath.Join(dir, e.Name()))
		if lerr == nil && target == "socket:["+inode+"]" {
			return true, nil
		}
		err = errors.Join(err, lerr)
	}
	if !errors.Is(err, fs.ErrPermission) {
		err = nil // the process has closed the file, or has ended
	}
	return false, err
}

// processStatus is a part of /proc/PID/status.
type processStatus struct {
	filters    int // number of system call filters
	noNewPrivs bool
	user       string // real, effective, saved and file system user id, as /proc writes them
	parent     string // pid
	depth      int    // number of nested pid namespaces in which the process has an id, from that of this process on
}

// isMoreConfinedThan reports whether the process is more confined than this process, whose status is self.
func (s processStatus) isMoreConfinedThan(self processStatus) bool {
	return s.noNewPrivs && s.filters > self.filters
}

func statusOf(pid string) (s processStatus, err error) {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); name {
		case "NoNewPrivs":
			s.noNewPrivs = value == "1"
		case "Uid":
			s.user = value
		case "PPid":
			s.parent = value
		case "NSpid":
			s.depth = len(strings.Fields(value))
		case "Seccomp_filters":
			if s.filters, err = strconv.Atoi(value); err != nil {
				return s, fmt.Errorf("cannot read the status of process %s: %w", pid, err)
			}
		}
	}
	return s, nil
}
