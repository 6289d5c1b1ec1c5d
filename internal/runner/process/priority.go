package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lowPriority is the nice value of agents' programs. When the server needs the processor too, it gets ten times as much.
const lowPriority = 10

// LowerPriority lets the processes of a group, and those that they start, wait for the processor behind the server. Linux may first divide
// the processor between sessions, so the caller must lead the session of the group. LowerPriority is a courtesy: where it is refused, the
// group keeps its priority.
func LowerPriority(group int) {
	_ = unix.Setpriority(unix.PRIO_PGRP, group, lowPriority)
	go func() {
		// Without privileges, all processes of the machine together may do this ten times a second.
		for range 100 {
			err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(lowPriority)), 0)
			if !errors.Is(err, syscall.EAGAIN) {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
}
