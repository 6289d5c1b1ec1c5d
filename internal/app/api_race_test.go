//go:build race

package app

// underRace says that the race detector watches: reading JSON byte by byte takes thirty times as long then.
const underRace = true
