// Package peer lets the servers on a store read from each other's machines: raw output, patches and bundles with the protocol of
// runners, and projects, roles, logs and kept work of places with the protocol in place.go.
//
// Package app opens it on servers that have a name among the replicas, and the core reads through it as state.OtherServers. It must
// never change anything on another server: changes go through the store.
package peer
