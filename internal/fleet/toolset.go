package fleet

// Toolset names the group of tools (a gRPC service) that created an agent and lists it. Agents of ToolsetFleet have names
// that users choose, and exist until they are deleted. Agents of the other toolsets exist for one contract, request,
// session or subagent run, and only their toolset lists them.
type Toolset string

// The toolsets.
const (
	ToolsetFleet     Toolset = ""
	ToolsetLifecycle Toolset = "lifecycle"
	ToolsetSessions  Toolset = "sessions"
	ToolsetProviders Toolset = "providers"
	ToolsetSubagents Toolset = "subagents"
)
