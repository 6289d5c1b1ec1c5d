// Package providers is the toolset of ready-made agents, called providers. A table lists them with their capabilities:
// models behind APIs, programs on this machine, and local model servers. The toolset lists providers, probes whether
// they would work, runs single requests on them, and keeps the tools that callers register for them. A request is one
// task on an agent of the core. The core deletes the agent when the task has ended, and its places talk to the models
// and programs.
//
// Package rpc calls this package. This package calls package service, and must never call a place or another toolset.
package providers
