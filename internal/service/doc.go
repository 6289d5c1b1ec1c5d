// Package service implements the calls of the API on the fleet: what each call does, who may make it, and what it returns.
// It has one file for each noun. Package face/rpc converts the API's messages. The toolsets in internal/toolset build
// their own calls on this package.
//
// A call that changes something writes the desired state to the store in one transaction. Some calls, such as CreateAgent,
// then wait until package reconcile has reached that state. Calls read from the snapshot and the store. They ask a place only
// for data that the store does not have, such as projects and roles, the log of a workspace, the raw output and the patch of a
// task, and unsaved or kept work.
//
// The package must never create, start, stop or delete a workspace or a run itself: a crash between the call and the change
// would lose the change. It does change repositories and leftovers of agents, when it lands, publishes or prunes work, because
// such a change can be repeated after a crash.
package service
