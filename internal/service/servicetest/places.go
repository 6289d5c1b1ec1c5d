package servicetest

import (
	"cmp"
	"fmt"
	"testing"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
)

// SecondPlace returns a place for New or WithToolsetPlace. Its name is second if c has no name. It has the driver script and the
// projects Setup and Web. The first place has a project Setup too.
func SecondPlace(t testing.TB, c fake.Config) *fake.Place {
	t.Helper()
	c.Traits.Name, c.Traits.Drivers = cmp.Or(c.Traits.Name, "second"), []fleet.Driver{{Name: "script"}}
	c.Projects = []fake.Project{{Project: fleet.Project{Name: "Setup"}}, {Project: fleet.Project{Name: "Web"}}}
	p := fake.New(c)
	t.Cleanup(p.Destroy)
	return p
}

// WithToolsetPlace returns a function that configures the place as a place of other toolsets only.
func WithToolsetPlace(p fleet.Place) func(*state.Config) {
	return func(c *state.Config) { c.OtherPlaces = []fleet.Place{p} }
}

// LaunchRequest returns a request for an agent in the place second that works on the prompt and is then deleted.
func LaunchRequest(prompt string) service.LaunchRequest {
	return service.LaunchRequest{
		Method: "Test", Toolset: fleet.ToolsetLifecycle, Place: "second", OneTask: true, Prompt: prompt,
		Config: &fleet.AgentConfig{Name: "tester", Driver: "script", Reports: true},
	}
}

// Workspaces returns n running workspaces of alice, for a host that had them before Fleet was started.
func Workspaces(n int) (all []fleet.Workspace) {
	for i := range n {
		name := fmt.Sprintf("agent-%d", i)
		all = append(all, fleet.Workspace{ID: "w-" + name, Name: name, Owner: "alice", Project: "Setup", Role: "coder", State: fleet.StateRunning})
	}
	return all
}
