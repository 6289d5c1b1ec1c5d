// Package app wires the parts together: configuration, store, places, core, faces and listeners. It is the only package
// that imports them all, and has no rules of its own.
package app
