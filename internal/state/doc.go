// Package state is the state that the service and the reconciler of one process share: the snapshot of the store in memory,
// the places with their health and their catalogs, and the configuration. It also has the changes of the store that both
// packages make, such as the end of a task.
//
// Package service mostly reads the state. Package reconcile and the store's events change it. Package state must never decide who may
// do what.
package state
