// Package providers is the toolset of ready-made agents: a table of models behind an API, programs on this machine and
// local model servers, each with what it can do. It says which there are and whether they would work, runs one request
// on one of them, and keeps the tools that callers register for them. A request is one task on an agent of the core that
// goes when the task has ended; how models and programs are talked to is the business of the core's backends.
package providers
