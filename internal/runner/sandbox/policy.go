// Package sandbox starts programs with restricted access to the system, as a Policy allows.
//
// A program is started through a helper: this executable under the name helperName. The helper confines itself and then
// executes the program, so no part of the program runs unconfined, and everything that the program starts is confined
// too. On Linux, the helper uses in this order: mounts, resource limits, an empty set of capabilities, no_new_privs, Landlock,
// seccomp.
//
// Packages runner, shim and worktree use this package, and places decide the Policy. The package must never start a
// program with less confinement than the Policy says. If the machine does not support the confinement, starting fails.
package sandbox

import "time"

// Policy lists what a program may access. Paths are absolute. The zero value allows no files except a few devices. It
// does not limit network connections.
type Policy struct {
	// Write are paths that the program may read, change and execute. Each must exist and may not contain symbolic links. A
	// program that can change a part of the path could otherwise replace it by a link that leads anywhere.
	Write []string `json:"write,omitempty"`
	// Read are paths that the program may read and execute. Missing paths are ignored.
	Read []string `json:"read,omitempty"`

	// Mounts gives the program a mount namespace that is read-only except for Write. Landlock alone would let the program
	// change modes, owners and times of other files. The namespace takes about 2 ms. Mounts has no effect if the process may
	// not create mount namespaces. Root may create them. So may the supervisor of a run that has its own user namespace.
	Mounts bool `json:"mounts,omitempty"`

	// Hide are directories in which the program sees only Write and Read. Landlock alone would let the program watch other
	// files there with inotify, and learn whether they exist. Hide has no effect without Mounts.
	Hide []string `json:"hide,omitempty"`

	// Override keeps CAP_DAC_OVERRIDE of root, so that the modes and owners of files in Write and Read do not matter.
	Override bool `json:"override,omitempty"`

	// Network limits the connections of the program. Empty means Full.
	Network Network `json:"network,omitempty"`

	// Processes limits the number of processes and threads of the program's user. 0 means DefaultProcesses. The kernel
	// exempts root.
	Processes uint64 `json:"processes,omitempty"`

	// Limits apply to the program, and separately to each process that it starts.
	Limits Limits `json:"limits,omitzero"`
}

// Limits limits the resources of one process. 0 means the limit of the calling process.
type Limits struct {
	Memory      uint64        `json:"memory,omitempty"`      // writable private memory, in bytes; files that are only read do not count
	CPU         time.Duration `json:"cpu,omitempty"`         // computing time, rounded up to seconds; SIGKILL ends a process that exceeds it
	FileSize    uint64        `json:"file_size,omitempty"`   // size of a file that the process writes, in bytes; SIGXFSZ ends a process that exceeds it
	Descriptors uint64        `json:"descriptors,omitempty"` // open file descriptors
}

// DefaultProcesses is the default of Policy.Processes.
const DefaultProcesses = 8192
