package fleet

// Toolset is the service that an agent belongs to. The fleet's own agents have names and live until they are deleted.
// Agents of the other toolsets are made for one piece of work, and only their toolset lists them.
type Toolset string

// The toolsets.
const (
	ToolsetFleet     Toolset = ""
	ToolsetLifecycle Toolset = "lifecycle"
	ToolsetSessions  Toolset = "sessions"
	ToolsetProviders Toolset = "providers"
	ToolsetSubagents Toolset = "subagents"
)
