// Package subagents runs specialized agents that are defined by files. Each agent has a directory with an agent.md, or a
// single file as in Claude Code. The frontmatter of the file says what the agent may do, and its body is the agent's system prompt.
// docs/use/subagents.md describes the format.
//
// A run is a task on an agent of the core. For a subagent without conversations, each call makes an agent and deletes
// it afterwards. For a subagent with conversations, each caller has one agent, which is kept.
//
// Package rpc calls this package. This package calls package service, and must never call a place or another toolset.
package subagents
