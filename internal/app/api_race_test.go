//go:build race

package app

// underRace says whether the race detector is active. With it, parsing JSON is thirty times slower.
const underRace = true
