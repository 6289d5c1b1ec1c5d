//go:build !linux

package inbound

import "net/netip"

// TellsUsers says whether User works on this system.
const TellsUsers = false

// socketUser knows nobody here.
func socketUser(_, _ netip.AddrPort) (int, error) { return 0, errNotFound }
