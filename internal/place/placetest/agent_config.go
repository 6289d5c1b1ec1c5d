package placetest

import (
	"slices"

	"fleet/internal/fleet"
)

// agentConfig tests an agent that has a configuration instead of a project, from its creation to its deletion.
func agentConfig(x *fixture) {
	drivers := x.place.Traits().DriverNames()
	if x.harness.SampleConfig == nil {
		x.Empty(drivers, "the place has drivers, so set Harness.SampleConfig")
		x.Skip("the place does not support agent configurations")
	}
	x.Contains(drivers, x.harness.SampleConfig.Driver)
	a := x.newConfigAgent(x.harness.SampleConfig)
	x.provision(a)
	w := x.await(a, fleet.StateRunning)
	second := x.provision(a)
	x.Equal(w.ID, second.ID)
	x.Len(x.list(a), 1)

	p := x.harness.Prompts.Says
	for range 2 {
		x.requireCompleted(a, x.dispatch(a, p), p)
	}
	x.delete(a)
	x.await(a, fleet.StateDeleted)
	x.Empty(x.list(a))
}

// configUnknownDriver checks that the names of the place's drivers are unique, and that an agent with an unknown driver is refused.
func configUnknownDriver(x *fixture) {
	drivers := x.place.Traits().DriverNames()
	if len(drivers) == 0 {
		x.Skip("the place does not support agent configurations")
	}
	for i, d := range drivers {
		x.NotEmpty(d)
		x.False(slices.Contains(drivers[:i], d), "the driver %q is listed twice", d)
	}
	_, err := x.place.Provision(x.ctx, x.newConfigAgent(&fleet.AgentConfig{Driver: "no-such-driver"}))
	x.requireReason(err, fleet.ReasonProvisioningFailed)
	x.Contains(fleet.PublicMessage(err), drivers[0], "the error must list the drivers")
}

// newConfigAgent returns an agent with the configuration. It has no workspace yet.
func (x *fixture) newConfigAgent(c *fleet.AgentConfig) fleet.Agent {
	a := x.newAgent()
	a.Toolset, a.Project, a.Role, a.Spec, a.Config = fleet.ToolsetSubagents, "", "", "", c
	return a
}
