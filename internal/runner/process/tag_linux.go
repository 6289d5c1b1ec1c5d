package process

import (
	"crypto/sha256"
	"encoding/binary"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A process is marked by its environment and by its limit for the time of realtime threads. Descendants inherit the limit
// whatever program they execute and however they change their environment, and only root can raise it. The limit is at least
// 146,000 years, so it affects no program. Its lower bits identify the run of the process.
const (
	tagBit  = 1 << 62
	runBits = 22 // bits that identify a run within its directory
)

// tagOf returns the limit that marks the processes with the variable.
func tagOf(variable string) uint64 {
	variable = strings.TrimSuffix(variable, "/")
	return tagBit | dirBits(path.Dir(variable)) | hash(path.Base(variable))>>(64-runBits)
}

// dirBits returns the bits that are common to the processes whose variables are in the directory.
func dirBits(dir string) uint64 { return hash(dir) >> 2 &^ (1<<runBits - 1) }

func hash(s string) uint64 {
	h := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(h[:])
}

// Tag marks the calling process and its future descendants, so that KillMarked finds them even if the variable is not in their
// environments. It does nothing if the process already has such a limit.
func Tag(variable string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &limit); err != nil {
		return err
	}
	if limit.Max != unix.RLIM_INFINITY {
		return nil
	}
	tag := tagOf(variable)
	return unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: tag, Max: tag})
}

// hasTag reports whether the process is tagged with the variable. If the variable ends with a slash, any variable in that
// directory counts.
func hasTag(pid int, variable string) bool {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil || limit.Max == unix.RLIM_INFINITY || limit.Max&tagBit == 0 {
		return false
	}
	return limit.Max == tagOf(variable) ||
		strings.HasSuffix(variable, "/") && limit.Max&^(1<<runBits-1) == tagBit|dirBits(strings.TrimSuffix(variable, "/"))
}
