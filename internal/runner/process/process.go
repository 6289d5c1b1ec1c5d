// Package process identifies processes by their pid, their start time and the boot of the machine. So if a new process
// gets the pid of an old one, it is not mistaken for the old process and gets no signal. The package also runs programs
// whose output must not be lost. Code that has stored a pid must send signals only with ID.Signal.
package process

import (
	"os"
	"slices"
	"syscall"
)

// ID identifies a process of this machine permanently.
type ID struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // the process's start time, in the format of the operating system
	Boot  string `json:"boot"`  // the id of the machine's boot; empty on systems other than Linux
}

// Entry is a row of the process table.
type Entry struct {
	ID
	Parent int
	Group  int
	Zombie bool // the process has ended, and its parent has not waited for it
}

// Self returns the calling process.
func Self() (ID, error) { return Of(os.Getpid()) }

// Of returns the process that has the pid now. It returns os.ErrProcessDone if no process has the pid.
func Of(pid int) (ID, error) {
	e, err := lookup(pid)
	return e.ID, err
}

// Alive reports whether the process still runs. A zombie counts as ended.
func (id ID) Alive() bool {
	e, err := lookup(id.PID)
	return err == nil && e.ID == id && !e.Zombie
}

// Signal sends the signal to this process. It returns os.ErrProcessDone if the process has ended.
func (id ID) Signal(sig syscall.Signal) error {
	// Where the system has handles for processes, FindProcess opens one, so that the pid cannot be reused between the
	// check and the signal.
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return os.ErrProcessDone
	}
	defer func() { _ = p.Release() }()
	if !id.Alive() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// Descendants returns all running descendants of the process.
func Descendants(root int) ([]Entry, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	children := map[int][]Entry{}
	for _, e := range all {
		children[e.Parent] = append(children[e.Parent], e)
	}
	var descendants []Entry
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, e := range children[queue[0]] {
			queue = append(queue, e.PID)
			if !e.Zombie {
				descendants = append(descendants, e)
			}
		}
	}
	return descendants, nil
}

// Members returns the running processes of the process group.
func Members(group int) ([]Entry, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	var members []Entry
	for _, e := range all {
		if e.Group == group && !e.Zombie {
			members = append(members, e)
		}
	}
	return members, nil
}

// KillDescendants kills all current descendants of the process like KillGroups, but not the group that the process leads. It returns
// the number of descendants that it found. Call it until it returns 0, because a killed process may have started other
// processes before.
func KillDescendants(root int) (int, error) {
	descendants, err := Descendants(root)
	KillGroups(descendants, root)
	return len(descendants), err
}

// KillGroups sends SIGKILL to the processes, and to the process groups that they are in, except the excluded groups and the
// group of the caller.
func KillGroups(entries []Entry, excluded ...int) {
	skipped := append(excluded, syscall.Getpgrp())
	for _, e := range entries {
		// Whole groups are killed, because killing processes one by one can lose against a program that keeps forking.
		if !slices.Contains(skipped, e.Group) {
			skipped = append(skipped, e.Group)
			_ = syscall.Kill(-e.Group, syscall.SIGKILL)
		}
	}
	for _, e := range entries {
		_ = e.Signal(syscall.SIGKILL)
	}
}
