package coder

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Requests for tokens that were never valid here are limited, because such tokens may be invented. Coder allows 512 requests a
// minute from one address, and all callers of this server share its address. The limit of a single network is lower than the
// limit of all networks together, so that one caller who floods the server does not keep others from signing in.
const (
	totalRate, totalBurst     = 7, 60 // tokens a second, and tokens at once
	networkRate, networkBurst = 4, 30
	maxNetworks               = 4096 // how many networks are remembered
)

// unknownTokenLimiter limits the checks of tokens that were never valid.
type unknownTokenLimiter struct {
	total *rate.Limiter

	mu         sync.Mutex
	perNetwork map[netip.Prefix]*rate.Limiter
}

func newUnknownTokenLimiter() *unknownTokenLimiter {
	return &unknownTokenLimiter{total: rate.NewLimiter(totalRate, totalBurst), perNetwork: map[netip.Prefix]*rate.Limiter{}}
}

// allow reports whether a token from the network may be checked.
func (u *unknownTokenLimiter) allow(now time.Time, network netip.Prefix) bool {
	return u.limiter(network).AllowN(now, 1) && u.total.AllowN(now, 1)
}

// limiter returns the limiter of the network. If the network has none, it adds one, and forgets another network if there are too many.
func (u *unknownTokenLimiter) limiter(network netip.Prefix) *rate.Limiter {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.perNetwork[network]
	if l == nil {
		for other := range u.perNetwork { // in random order
			if len(u.perNetwork) < maxNetworks {
				break
			}
			delete(u.perNetwork, other)
		}
		l = rate.NewLimiter(networkRate, networkBurst)
		u.perNetwork[network] = l
	}
	return l
}
