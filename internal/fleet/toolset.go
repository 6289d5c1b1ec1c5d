package fleet

// Toolset names the group of tools (a gRPC service) that created an agent and lists it. Users choose the names of the agents
// of ToolsetFleet, and these agents exist until they are deleted. An agent of another toolset exists for one contract,
// request, session or subagent run, and only that toolset lists it.
type Toolset string

// The toolsets.
const (
	ToolsetFleet     Toolset = ""
	ToolsetLifecycle Toolset = "lifecycle"
	ToolsetSessions  Toolset = "sessions"
	ToolsetProviders Toolset = "providers"
	ToolsetSubagents Toolset = "subagents"
)
