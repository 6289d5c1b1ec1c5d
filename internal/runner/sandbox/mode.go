package sandbox

import (
	"errors"
	"fmt"
	"slices"
)

// Mode says how programs are confined.
type Mode string

// Modes of confinement.
const (
	Auto     Mode = "auto"     // Landlock if the system supports it, otherwise None
	Landlock Mode = "landlock" // programs are confined by Landlock and seccomp
	None     Mode = "none"     // programs are not confined
)

// Modes lists all modes.
var Modes = []Mode{Auto, Landlock, None}

// ErrUnavailable means that this system cannot confine programs. The wrapping error says what is missing.
var ErrUnavailable = errors.New("this system cannot confine programs")

// Choose returns how programs are confined: Landlock or None. It returns an error that wraps ErrUnavailable if the
// system does not support the mode or the network; it never weakens a setting. The default mode is Auto, and the
// default network is Full.
func Choose(m Mode, n Network) (Mode, error) {
	if m != "" && !slices.Contains(Modes, m) {
		return "", fmt.Errorf("sandbox is %q: it must be auto, landlock or none", m)
	}
	if err := n.check(); err != nil {
		return "", err
	}
	fullNetwork := n == "" || n == Full
	if m == None {
		if !fullNetwork {
			return "", fmt.Errorf("network %s needs a sandbox: remove sandbox: none", n.Kind())
		}
		return None, nil
	}
	err := Available()
	if err == nil && n.Kind() == allowPrefix {
		err = checkNetworkNamespace()
	}
	switch {
	case err == nil:
		return Landlock, nil
	case m == Landlock || !fullNetwork:
		return "", err
	}
	return None, nil
}
