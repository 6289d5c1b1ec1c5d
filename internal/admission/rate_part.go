package admission

import (
	"slices"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// The keys of the limits of requests are these prefixes and the name of the principal or project.
const (
	principalLimit = "principal/"
	projectLimit   = "project/"
)

const (
	// knownAfter is how many intervals of demand the servers need to know each other's: in the first one, a server records its
	// own demand, and in the second one, all servers can read it.
	knownAfter = 2
	// nearly is the part of an even part from which on a server may need more than that.
	nearly = 0.95
	// negligible is the part of an even part below which the other servers need not know of the demand.
	negligible = 0.1
)

// demand measures the requests for one limit on this server.
type demand struct {
	asked atomic.Int64 // requests in this interval, with the refused ones
	high  atomic.Int64 // for how many intervals in a row the demand was nearly an even part or more

	last float64 // requests a second in the last interval; guarded by Rates.mu
}

// measure ends an interval of the given length.
func (d *demand) measure(seconds float64) { d.last = float64(d.asked.Swap(0)) / seconds }

// published records that the other servers can read the demand of the last interval. even is this server's even part of the limit.
func (d *demand) published(even rate.Limit) {
	if d.last >= nearly*float64(even) {
		d.high.Add(1)
	} else {
		d.high.Store(0)
	}
}

// demands has the result of Rates.Demand of each of the other servers.
type demands []map[string]float64

// even returns the even part of this server in a limit of all servers together.
func (d demands) even(most int64) rate.Limit { return rate.Limit(float64(most) / float64(len(d)+1)) }

// part returns how many requests per second this server allows of the limit with the key, which is most for all servers
// together. That is an even part, or more while this server needs more and the others need less.
//
// It divides the limit by max-min fairness: a server that needs little gets that, and the others get even parts of the rest. As
// long as the demand stays the same, all servers together allow no more than most, or at most a tenth more because of demand that
// is negligible.
func (d demands) part(key string, most int64, mine *demand) rate.Limit {
	if mine.high.Load() < knownAfter {
		return d.even(most)
	}
	others := make([]float64, len(d))
	for i, of := range d {
		others[i] = of[key]
	}
	slices.Sort(others)
	left := float64(most)
	for i, other := range others {
		even := left / float64(len(others)-i+1)
		if other >= even {
			return rate.Limit(even)
		}
		left -= other
	}
	return rate.Limit(left)
}
