//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is how long this process has run on a CPU: unlike the time on the wall, it hardly changes with what else the
// machine does.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
