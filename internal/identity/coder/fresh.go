package coder

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Requests for tokens that were never valid here are limited, because such tokens may be invented. Coder allows 512 requests a
// minute from one address, and all callers of this server share its address. A caller's network has a lower limit than all
// together, so that somebody who floods the server does not keep others from signing in.
const (
	newPerSecond, newBurst         = 7, 60
	newPerSecondFrom, newBurstFrom = 4, 30
	maxNetworks                    = 4096 // how many networks are remembered
)

// fresh limits how many tokens that were never valid are checked.
type fresh struct {
	all *rate.Limiter

	mu   sync.Mutex
	from map[netip.Prefix]*rate.Limiter
}

func newFresh() *fresh {
	return &fresh{all: rate.NewLimiter(newPerSecond, newBurst), from: map[netip.Prefix]*rate.Limiter{}}
}

// allow reports whether a token from the network may be checked.
func (f *fresh) allow(now time.Time, network netip.Prefix) bool {
	return f.limiter(network).AllowN(now, 1) && f.all.AllowN(now, 1)
}

// limiter returns the limit of the network.
func (f *fresh) limiter(network netip.Prefix) *rate.Limiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.from[network]
	if l == nil {
		for other := range f.from { // in random order
			if len(f.from) < maxNetworks {
				break
			}
			delete(f.from, other)
		}
		l = rate.NewLimiter(newPerSecondFrom, newBurstFrom)
		f.from[network] = l
	}
	return l
}
