package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bootID returns the system's id of the current boot, or "unknown" if it cannot be read.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
})

func lookup(pid int) (Entry, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return Entry{}, os.ErrProcessDone
	}
	if err != nil {
		return Entry{}, err
	}
	return parseStat(pid, b)
}

// parseStat parses a line of /proc/PID/stat. The second field is the program's name in parentheses, which may itself
// contain spaces and parentheses, so fields are counted after the last parenthesis.
func parseStat(pid int, stat []byte) (Entry, error) {
	i := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[i+1:])
	if i < 0 || len(fields) < 20 {
		return Entry{}, fmt.Errorf("/proc/%d/stat has an unknown format", pid)
	}
	e := Entry{ID: ID{PID: pid, Start: string(fields[19]), Boot: bootID()}}
	// If the first thread has ended before the others, the process looks like a zombie, but it still runs. The last thread of
	// an init process, for example, may still be killing the processes of its namespace.
	threads, _ := strconv.Atoi(string(fields[17]))
	e.Zombie = threads <= 1 && fields[0][0] == 'Z' || fields[0][0] == 'X'
	e.Parent, _ = strconv.Atoi(string(fields[1]))
	e.Group, _ = strconv.Atoi(string(fields[2]))
	return e, nil
}

func pids() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	ids := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			ids = append(ids, pid)
		}
	}
	return ids, nil
}

func list() ([]Entry, error) {
	ids, err := pids()
	if err != nil {
		return nil, err
	}
	all := make([]Entry, 0, len(ids))
	for _, pid := range ids {
		if e, err := lookup(pid); err == nil { // the process may have ended since
			all = append(all, e)
		}
	}
	return all, nil
}

func markedProcesses(variable string) []ID {
	ids, err := pids()
	if err != nil {
		return nil
	}
	var found []ID
	for _, pid := range ids {
		e, err := lookup(pid)
		if err != nil || e.Zombie || pid == os.Getpid() {
			continue
		}
		if hasTag(pid, variable) {
			found = append(found, e.ID)
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			continue
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if string(v) == variable || strings.HasSuffix(variable, "/") && strings.HasPrefix(string(v), variable) {
				found = append(found, e.ID)
				break
			}
		}
	}
	return found
}

// AdoptOrphans makes the calling process the parent of every descendant whose own parent ends. So the calling process
// can find all its descendants.
func AdoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Attributes returns attributes for a child that leads its own process group. The system kills the child when the
// thread that started it ends, so start the child from a goroutine that has locked its thread.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// SetParentDeathSignal changes the attributes so that the child gets the signal, and not SIGKILL, when the thread that started it ends.
func SetParentDeathSignal(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// AdoptsOrphans reports whether AdoptOrphans works on this system.
const AdoptsOrphans = true
