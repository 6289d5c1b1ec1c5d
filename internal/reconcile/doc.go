// Package reconcile makes each place reach the desired state in the store, and records in the store what the place reports. It has
// a worker for each agent that needs work, a poller for each place, and a pruner. It also starts queued tasks, lands work and sends
// webhooks. A worker works only while it holds the lease of its agent.
//
// The package has no knowledge of callers: package service writes their requests to the store. Both packages use package
// state.
//
// Package app starts the reconciler. The reconciler calls places and runners, and must never decide what a caller may do.
package reconcile
