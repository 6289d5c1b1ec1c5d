// Package sessions is the toolset of conversations with agents. The agents are defined in files or artifacts, or are
// agents of the fleet. A session is a list of tasks of one agent, and each message is the next task.
//
// Package rpc calls this package. This package calls package service, and must never call a place or another toolset.
package sessions
