// Package servicetest runs a fleet for the tests of packages state, service and reconcile. The fleet has a real service
// and a real reconciler, stores its data in a SQLite file, and has fake places in memory. This package contains no
// tests: each test is in the package whose code it checks.
package servicetest
