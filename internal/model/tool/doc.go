// Package tool has the tools that Fleet gives to agents on models: restricted forms of tools of docker/cagent, and tools that the library
// does not have.
//
// Package model/run uses it. It runs in the process of a run, as the agent's own user and in its sandbox. The tools must not give a
// model more than its definition says: a model chooses all arguments.
package tool
