// Package app wires the parts together: configuration, store, places, core, faces and listeners. cmd/fleet calls Main,
// and tests call Open. It is the only package that imports them all, and it must never have rules of its own.
package app
