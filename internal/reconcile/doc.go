// Package reconcile brings places and store together: it makes each place follow what the store says is wanted, and
// records in the store what the place reports. It has one worker for each agent with work to do, which holds the agent's
// lease, one poller for each place, and a pruner.
//
// It knows nothing of callers: package service writes what they want, and both use package state.
//
// Package app starts it. It calls places and runners, and must never decide what a caller may do.
package reconcile
