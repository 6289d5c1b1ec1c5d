package inbound

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// confined says whether a program that is confined holds the socket: it has no_new_privs and more filters of system calls
// than this process, neither of which it can get rid of. A program that shares the server's user is the user otherwise.
// errNotFound if no process that can be looked into holds the socket.
func confined(inode string) (bool, error) {
	own, _, err := marks("self")
	if err != nil {
		return false, err
	}
	if holds("self", inode) {
		return false, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || !holds(e.Name(), inode) {
			continue
		}
		filters, kept, err := marks(e.Name())
		return kept && filters > own, err
	}
	return false, errNotFound
}

// holds says whether the process has the socket open.
func holds(pid, inode string) bool {
	dir := filepath.Join("/proc", pid, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// marks returns how many filters of system calls the process has, and whether it has no_new_privs.
func marks(pid string) (filters int, noNewPrivs bool, err error) {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0, false, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); name {
		case "NoNewPrivs":
			noNewPrivs = value == "1"
		case "Seccomp_filters":
			if filters, err = strconv.Atoi(value); err != nil {
				return 0, false, fmt.Errorf("read the status of process %s: %w", pid, err)
			}
		}
	}
	return filters, noNewPrivs, nil
}
