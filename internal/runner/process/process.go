// Package process identifies processes by their pid, their start time and the boot of the machine. So a pid that now
// belongs to another process is never mistaken for the old one, and never signalled. Packages runner and shim use it;
// nothing may signal a stored pid in another way.
package process

import (
	"errors"
	"os"
	"syscall"
)

// ID is one process of this machine, for ever.
type ID struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // when it started, in the notation of the operating system
	Boot  string `json:"boot"`  // of which boot of the machine
}

// Entry is a row of the process table.
type Entry struct {
	ID
	Parent int
	Group  int
	Zombie bool // it has ended, and its parent did not ask how
}

// Self returns the process that asks.
func Self() (ID, error) { return Of(os.Getpid()) }

// Of returns the process that has the pid now. A pid that nobody has is os.ErrProcessDone.
func Of(pid int) (ID, error) {
	e, err := lookup(pid)
	return e.ID, err
}

// Alive reports whether the process still runs. One that has ended and was not waited for does not.
func (id ID) Alive() bool {
	e, err := lookup(id.PID)
	return err == nil && e.ID == id && !e.Zombie
}

// Signal sends the signal to this very process, or returns os.ErrProcessDone when it has ended.
func (id ID) Signal(sig syscall.Signal) error {
	// Where the system has handles for processes, FindProcess takes one, so that the pid cannot change hands between
	// the look and the signal.
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

// Descendants returns the children of the process, their children, and so on, that still run.
func Descendants(root int) ([]Entry, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	children := map[int][]Entry{}
	for _, e := range all {
		children[e.Parent] = append(children[e.Parent], e)
	}
	var found []Entry
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, e := range children[queue[0]] {
			queue = append(queue, e.PID)
			if !e.Zombie {
				found = append(found, e)
			}
		}
	}
	return found, nil
}

// Members returns the processes of the group that still run.
func Members(group int) ([]Entry, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	var found []Entry
	for _, e := range all {
		if e.Group == group && !e.Zombie {
			found = append(found, e)
		}
	}
	return found, nil
}

// KillDescendants kills what descends from the process once, and returns how many processes that were. Call it again until
// it is none: what is killed may have started others meanwhile.
func KillDescendants(root int) (int, error) {
	found, err := Descendants(root)
	groups := map[int]bool{root: true, syscall.Getpgrp(): true}
	for _, e := range found {
		// A group at once, since killing one by one can lose against a program that keeps forking.
		if !groups[e.Group] {
			groups[e.Group] = true
			_ = syscall.Kill(-e.Group, syscall.SIGKILL)
		}
	}
	for _, e := range found {
		_ = e.Signal(syscall.SIGKILL)
	}
	return len(found), err
}

// KillMarked kills every process that was started with the variable in its environment ("NAME=value", or "NAME=directory/"
// for every value that is within the directory), and those that
// they start meanwhile, and returns how many it could not kill. It is for those whose family ties are lost: who got a
// new parent when theirs was killed. Where the system does not show environments, it finds none.
func KillMarked(variable string) int {
	left := 0
	for range 100 { // each pass kills what the processes of the last one started before they died
		ids := marked(variable)
		left = 0
		for _, id := range ids {
			if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
				left++
			}
		}
		if len(ids) == left {
			break
		}
	}
	return left
}
