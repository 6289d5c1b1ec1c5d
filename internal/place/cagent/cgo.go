//go:build cgo

package cagent

// Lacks says what this program cannot do because of how it was built; empty if it can do everything.
const Lacks = ""
