package rpc

import (
	"slices"

	"golang.org/x/time/rate"
)

// The keys of the limits of requests are these prefixes and the name of the principal or project.
const (
	principalLimit = "principal/"
	projectLimit   = "project/"
)

// knownAfter is how often the limit of a bucket must have been set until the other servers know the bucket's demand, and this
// server knows theirs, so that they can divide the limit by demand.
const knownAfter = 2

// demands has the result of Rates.Demand of each of the other servers.
type demands []map[string]float64

// even returns the even part of this server in a limit of all servers together.
func (d demands) even(most int64) rate.Limit { return rate.Limit(float64(most) / float64(len(d)+1)) }

// part returns how many requests per second this server allows of the limit with the key, which is most for all servers
// together. shared is how often the limit has been set; at first, this server gets an even part.
//
// part assumes that this server needs the whole limit. It divides the limit by max-min fairness: a server that needs little
// gets that, and the others get even parts of the rest. So this server gets at least an even part, and everything if no other
// server has requests. As long as the demand stays the same, all servers together allow no more than most.
func (d demands) part(key string, most, shared int64) rate.Limit {
	if shared < knownAfter {
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
