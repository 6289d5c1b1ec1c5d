// Package providers is the toolset of ready-made agents: a table of models behind APIs, programs on this machine, and
// local model servers, each with its capabilities. It lists them, probes whether they would work, runs single requests
// on them, and keeps the tools that callers register for them. A request is one task on an agent of the core, which is
// deleted when the task has ended. The places of the core talk to the models and programs.
//
// Package rpc calls it. It calls package service, and must never call a place or another toolset.
package providers
