// Package tool implements the tools that Fleet gives to agents on models: restricted forms of tools of docker/cagent, and
// tools that the library does not have.
//
// Package model/run uses it. It runs in the process of a run, as the agent's own user and in its sandbox. The model chooses
// all arguments, so a tool must never let the model do more than the agent's definition allows.
package tool
