// Package subagents runs specialized agents that are defined by files: each in a directory with an agent.md, whose
// frontmatter says what the agent may do and whose body is its system prompt. docs/use/subagents.md describes the format.
//
// A run is a task on an agent of the core. An agent without a conversation is made for one call and deleted afterwards.
// An agent with a conversation is kept for each of its callers.
//
// Package rpc calls it. It calls package service, and must never call a place or another toolset.
package subagents
