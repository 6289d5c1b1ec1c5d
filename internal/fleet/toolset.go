package fleet

// Toolset says which of Fleet's services an agent belongs to. The agents of the fleet itself have names and live until
// they are deleted; those of the other toolsets are made for one piece of work, and only their own toolset shows them.
type Toolset string

// The toolsets.
const (
	ToolsetFleet     Toolset = ""
	ToolsetLifecycle Toolset = "lifecycle"
	ToolsetSessions  Toolset = "sessions"
	ToolsetProviders Toolset = "providers"
	ToolsetSubagents Toolset = "subagents"
)
