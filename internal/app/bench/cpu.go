package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// userHz is the unit of times in /proc, which is the same on every Linux.
const userHz = 100

// cpuTime returns the CPU time of this process and of programs that it has run. Unless the pid is 0, it adds that of the process of the
// pid and of its children.
func cpuTime(pid int) (total time.Duration, err error) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var used unix.Rusage
		if err := unix.Getrusage(who, &used); err != nil {
			return 0, err
		}
		total += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	if pid == 0 {
		return total, nil
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, err := os.ReadFile(name) //nolint:gosec // of a process
		if err != nil {
			continue // it has ended, and its parent has its time
		}
		var process, parent, skip int
		var state string
		var user, system, childUser, childSystem int64
		if _, err := fmt.Sscan(string(stat), &process); err != nil {
			return 0, err
		}
		_, rest, _ := bytes.Cut(stat, []byte(") ")) // behind the name, which may have spaces
		if _, err := fmt.Sscan(string(rest), &state, &parent, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system, &childUser, &childSystem); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		if process == pid || parent == pid {
			total += time.Duration(user+system+childUser+childSystem) * time.Second / userHz
		}
	}
	return total, err
}
