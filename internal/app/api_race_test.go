//go:build race

package app

// underRace says whether the race detector is active, with which parsing JSON is thirty times slower.
const underRace = true
