// Package state is the fleet as one process knows it, for the service and the reconciler of that process: the snapshot of
// the store in memory, the places with their health and their catalogs, and the configuration. It also has the changes of
// the store that both make: how a task ends.
//
// State is read by package service and written by package reconcile and by the store's events. It decides nothing about
// who may do what.
package state
