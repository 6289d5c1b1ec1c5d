// Package servicetest runs a fleet for the tests of packages state, service and reconcile: one process's service and
// reconciler over a SQLite file and a place in memory. Tests are in the package whose code they check.
package servicetest
