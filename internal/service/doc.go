// Package service implements the calls of the API on the fleet: what each does, who may make it, and what it answers.
// There is one file for each noun. Package face/rpc converts the API's messages, and the toolsets in internal/toolset
// add calls of their own on top.
//
// A call that changes something writes to the store what is wanted, in one transaction, and waits for package reconcile
// to make it so. Calls read from the snapshot and the store. They ask a place only for what nothing else knows: projects
// and roles, the log of a workspace, the raw output and the patch of a task, and the bundle of an agent that exists.
//
// It must never start, stop or change anything at a place itself: a crash between the call and the change would lose
// it.
package service
