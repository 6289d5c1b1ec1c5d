package inbound

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// confined reports whether a confined program holds the socket: a program with no_new_privs and more system call
// filters than this process. A program can get rid of neither. Without this check a sandboxed program would count as
// the user it runs as. It returns errNotFound if no readable process holds the socket.
func confined(inode string) (bool, error) {
	own, _, err := marks("self")
	if err != nil {
		return false, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	found := false // several processes may hold the socket, and one confined process is enough
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || !holds(e.Name(), inode) {
			continue
		}
		filters, kept, err := marks(e.Name())
		if err != nil || kept && filters > own {
			return true, err
		}
		found = true
	}
	if !found {
		return false, errNotFound
	}
	return false, nil
}

// holds reports whether the process has the socket open.
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

// marks returns how many system call filters the process has, and whether it has no_new_privs.
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
				return 0, false, fmt.Errorf("cannot read the status of process %s: %w", pid, err)
			}
		}
	}
	return filters, noNewPrivs, nil
}
