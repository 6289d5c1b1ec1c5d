// Package sessions is the toolset of conversations with agents that are defined in files or artifacts, or with agents
// of the fleet by name. A session is a list of tasks of one agent; each message is the next task.
//
// Package rpc calls it. It calls package service, and must never call a place or another toolset.
package sessions
