// Package reconcile brings places and store together: it makes each place reach the desired state in the store, and records
// in the store what the place reports. It has one worker for each agent that needs work, which holds the agent's lease, one
// poller for each place, and a pruner.
//
// It has no knowledge of callers: package service writes their requests to the store. Both packages use package state.
//
// Package app starts it. It calls places and runners, and must never decide what a caller may do.
package reconcile
