// Package sandbox starts programs that can reach only what a Policy allows.
//
// A program is started through a helper: this executable under the name helperName. The helper confines itself and then
// executes the program, so nothing of the program runs unconfined, and everything that the program starts is confined
// too. On Linux it uses, in this order: mounts, resource limits, an empty set of capabilities, no_new_privs, Landlock,
// seccomp.
//
// Packages runner, shim and worktree use it; places decide the Policy. It must never start a program with less
// confinement than the Policy says: if the machine cannot do it, starting fails.
package sandbox

import (
	"errors"
	"fmt"
	"slices"
)

// Policy is what a program may reach. Paths are absolute. The zero value may reach nothing.
type Policy struct {
	Write []string `json:"write,omitempty"` // directories and files that it may read, change and execute; each must exist
	Read  []string `json:"read,omitempty"`  // directories and files that it may read and execute; those that do not exist are left out

	// Mounts says that the program gets mounts of its own where the user may make them, as root may: read-only except for Write.
	// Then it cannot change modes, owners and times of other files, which Landlock does not check. It takes about 2 ms.
	Mounts bool `json:"mounts,omitempty"`

	// Network is empty for Full.
	Network Network `json:"network,omitempty"`

	// Processes is how many processes and threads the user of the program may have before the program cannot start more;
	// 0: DefaultProcesses. It does not hold for root, whom the kernel exempts.
	Processes uint64 `json:"processes,omitempty"`
}

// DefaultProcesses is the default of Policy.Processes.
const DefaultProcesses = 8192

// Network is what a program may connect to: Full, Offline, or what Allow returns.
type Network string

// The networks.
const (
	Full    Network = "full" // TCP and UDP
	Offline Network = "none" // nothing; it cannot make a socket except a pair of connected ones
)

// Mode is how programs are confined.
type Mode string

// The modes.
const (
	Auto     Mode = "auto"     // as Landlock where the system has it, else as None
	Landlock Mode = "landlock" // with Landlock and seccomp
	None     Mode = "none"     // not at all
)

// Modes are the values of Mode.
var Modes = []Mode{Auto, Landlock, None}

// ErrUnavailable means that this system cannot confine programs. Its text says what is missing.
var ErrUnavailable = errors.New("programs cannot be confined on this system")

// Choose returns how programs are confined: Landlock or None. It returns an error that wraps ErrUnavailable if the mode or
// the network cannot be had, since a setting is never weakened. An empty mode is Auto, and an empty network is Full.
func Choose(m Mode, n Network) (Mode, error) {
	if m != "" && !slices.Contains(Modes, m) {
		return "", fmt.Errorf("sandbox is %q: it is auto, landlock or none", m)
	}
	if err := n.check(); err != nil {
		return "", err
	}
	open := n == "" || n == Full
	if m == None {
		if !open {
			return "", fmt.Errorf("network %s needs a sandbox: remove sandbox: none", n.Kind())
		}
		return None, nil
	}
	err := Available()
	if err == nil && n.Kind() == allow {
		err = separable()
	}
	switch {
	case err == nil:
		return Landlock, nil
	case m == Landlock || !open:
		return "", err
	}
	return None, nil
}
