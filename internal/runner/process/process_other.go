//go:build unix && !linux

package process

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// readTable reads the process table with ps, which every Unix has.
func readTable(args ...string) ([]Entry, error) {
	cmd := exec.Command("ps", append(args, "-o", "pid=,ppid=,pgid=,stat=,lstart=")...)
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/bin:/usr/bin"}
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		return nil, os.ErrProcessDone
	}
	var all []Entry
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 5 {
			continue
		}
		e := Entry{ID: ID{Start: strings.Join(f[4:], " ")}, Zombie: strings.HasPrefix(f[3], "Z")}
		e.PID, _ = strconv.Atoi(f[0])
		e.Parent, _ = strconv.Atoi(f[1])
		e.Group, _ = strconv.Atoi(f[2])
		all = append(all, e)
	}
	return all, nil
}

func lookup(pid int) (Entry, error) {
	all, err := readTable("-p", strconv.Itoa(pid))
	if err != nil || len(all) == 0 {
		return Entry{}, os.ErrProcessDone
	}
	return all[0], nil
}

func list() ([]Entry, error) { return readTable("-ax") }

// markedProcesses finds nothing: the system does not show the environments of processes.
func markedProcesses(string) []ID { return nil }

// Tag does nothing on this system.
func Tag(string) error { return nil }

// AdoptOrphans does nothing on this system. A process that has left the process group and lost its parent is not found.
func AdoptOrphans() error { return nil }

// Attributes returns attributes for a child that leads its own process group.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// SetParentDeathSignal does nothing on this system. A child does not notice the end of its parent.
func SetParentDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}

// AdoptsOrphans reports whether AdoptOrphans works on this system.
const AdoptsOrphans = false
