package fleet

import "time"

// Traits are facts about a place.
type Traits struct {
	Name string
	// PollInterval is how often List is called while nothing changes; 0 means the reconciler's default.
	PollInterval time.Duration
	// StopGrace is how long a run may take to end after Interrupt before it is killed; 0 means the reconciler's
	// default.
	StopGrace time.Duration
	// StopEndsRuns means that stopping the workspace also ends a run that has survived a kill.
	StopEndsRuns bool
	// Adopts means that a listed workspace becomes an agent if the store has no agent for it.
	Adopts bool
	// Drivers are the drivers that AgentConfig.Driver can name. A place without drivers accepts no configurations.
	Drivers []Driver
	// ReachesFleet means that its agents can reach Fleet at the address in Run.FleetEndpoint.
	ReachesFleet bool
	// FleetURL is the address of Fleet's MCP endpoints for its agents, if they do not reach it at the server's own address.
	FleetURL string
	// KeepsFiles means that Delete keeps files as AgentConfig.KeepFilesFor says. The place is then a Tidier.
	KeepsFiles bool
	// Asks means that its agents can ask questions: Follow reports them, and Answer answers them.
	Asks bool
	// SupportsChanges means that its runners support Changes, Compare and Patch.
	SupportsChanges bool
	// SupportsOutput means that its runners support Output.
	SupportsOutput bool
	// SupportsChecks means that its runners can run checks.
	SupportsChecks bool
	// HasProjectChecks means that its projects and roles can have checks.
	HasProjectChecks bool
	// SupportsBundles means that its runners support Bundle.
	SupportsBundles bool
	// KeepsWork means that a bundle's content survives the workspace: Bundle writes the same content after Delete.
	KeepsWork bool
	// KeepsVersions means that the place is a Versioner.
	KeepsVersions bool
	// CallsKeepAwake means that the host stops workspaces that nobody uses, and counts each call about a workspace as use. So Fleet makes
	// no such calls regularly.
	CallsKeepAwake bool
	// UniqueNames means that the host has a single namespace for the agents of all owners.
	UniqueNames bool
}

// Driver returns the driver with the name. ok is false if the place has no such driver.
func (t Traits) Driver(name string) (d Driver, ok bool) {
	for _, d := range t.Drivers {
		if d.Name == name {
			return d, true
		}
	}
	return Driver{}, false
}

// DriverNames returns the names of the drivers.
func (t Traits) DriverNames() []string { return DriverNames(t.Drivers, nil) }

// Driver is a driver of a place, with the facts about it that configurations depend on.
type Driver struct {
	Name string
	// EnforcesTools means that it holds its agent to AgentConfig.Allow and AgentConfig.Deny.
	EnforcesTools bool
	// LimitsTools means that AgentConfig.Allow has the names of Claude Code's tools, and that its agent has no other tools.
	LimitsTools bool
	// Asks means that it supports AgentConfig.Ask.
	Asks bool
	// SupportsMCPServers means that it gives its agent the configuration's MCP servers.
	SupportsMCPServers bool
	// ReachesFleet means that its agent can use Run.FleetEndpoint.
	ReachesFleet bool
	// Remembers means that the tasks of an agent are one conversation.
	Remembers bool
	// RunsScripts means that a task is a script that is executed, and not a text that is read.
	RunsScripts bool
	// NeedsCommand means that it starts the program of AgentConfig.Command, and has none of its own.
	NeedsCommand bool
	// AddsArguments means that AgentConfig.Command has additional arguments for the driver's own program. Otherwise the
	// command replaces that program.
	AddsArguments bool
	// NeedsDocument means that its agents are defined by AgentConfig.Document.
	NeedsDocument bool
}

// DriverNames returns the names of the drivers for which matches returns true. If matches is nil, it returns all names.
func DriverNames(drivers []Driver, matches func(Driver) bool) (names []string) {
	for _, d := range drivers {
		if matches == nil || matches(d) {
			names = append(names, d.Name)
		}
	}
	return names
}
