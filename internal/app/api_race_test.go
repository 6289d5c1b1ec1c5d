//go:build race

package app

// underRace says that the race detector is active, which makes parsing JSON thirty times slower.
const underRace = true
