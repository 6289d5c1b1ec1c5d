package placetest

import (
	"time"

	"fleet/internal/fleet"
)

func traits(x *fixture) {
	x.NotEmpty(x.place.Traits().Name)
	x.GreaterOrEqual(x.place.Traits().PollInterval, time.Duration(0))
	x.GreaterOrEqual(x.place.Traits().StopGrace, time.Duration(0))
	before := x.place.Traits()
	x.readyAgent()
	x.Equal(before, x.place.Traits())
}

// requireValidChecks requires that the checks are valid, and empty if Traits.HasProjectChecks is not set.
func (x *fixture) requireValidChecks(c fleet.Checks) {
	x.Helper()
	x.NoError(c.Validate())
	if !x.place.Traits().HasProjectChecks {
		x.Empty(c)
	}
}

func projects(x *fixture) {
	all, err := x.place.Projects(x.ctx)
	x.NoError(err)
	found := false
	for i, p := range all {
		x.NotEmpty(p.Name)
		if i > 0 {
			x.Less(all[i-1].Name, p.Name, "projects must be sorted and unique")
		}
		found = found || p.Name == x.harness.Project

		roles, err := x.place.Roles(x.ctx, p.Name)
		x.NoError(err)
		x.NotEmpty(roles, "project %q has no role", p.Name)
		defaults, names := 0, map[string]bool{}
		x.requireValidChecks(p.Checks)
		for _, r := range roles {
			x.NotEmpty(r.Name)
			x.requireValidChecks(r.Checks)
			x.False(names[r.Name], "project %q has the role %q twice", p.Name, r.Name)
			names[r.Name] = true
			if r.Default {
				defaults++
			}
		}
		x.LessOrEqual(defaults, 1, "project %q has more than one default role", p.Name)
		if p.Name == x.harness.Project {
			x.True(names[x.harness.Role], "project %q has no role %q", p.Name, x.harness.Role)
		}
	}
	x.True(found, "there is no project %q among %v", x.harness.Project, all)

	for _, name := range []string{"no-such-project", "", "../" + x.harness.Project} {
		_, err = x.place.Roles(x.ctx, name)
		x.requireReason(err, fleet.ReasonProjectNotFound)
	}
}
