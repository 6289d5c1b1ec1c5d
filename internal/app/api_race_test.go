//go:build race

package app

// underRace reports whether the race detector is active. With it, parsing JSON is thirty times slower.
const underRace = true
