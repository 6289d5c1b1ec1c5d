//go:build !race

package app

// underRace is false, because the race detector is not active.
const underRace = false
