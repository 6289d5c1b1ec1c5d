package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lowPriority is the nice value of agents' programs. If the server needs the processor too, it gets about nine times
// as much time.
const lowPriority = 10

// LowerPriority lowers the priority of the processes of a group, and of those that they start, below that of the server. Linux
// may first divide the processor between sessions, so LowerPriority also lowers the priority of the
// caller's session, in the background. The caller must lead the session of the group. If the system refuses, the group keeps its
// priority.
func LowerPriority(group int) {
	_ = unix.Setpriority(unix.PRIO_PGRP, group, lowPriority)
	go func() {
		// For processes without privileges, Linux allows this only ten times a second on the whole machine.
		for range 100 {
			err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(lowPriority)), 0)
			if !errors.Is(err, syscall.EAGAIN) {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
}
