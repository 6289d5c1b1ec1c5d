package fake_test

import (
	"testing"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/placetest"
)

func TestPlace(t *testing.T) {
	reducedPrompts := placetest.FakePrompts()
	reducedPrompts.Listens, reducedPrompts.Changes, reducedPrompts.Asks, reducedPrompts.UnansweredQuestion = placetest.Prompt{}, placetest.Prompt{}, placetest.Prompt{}, placetest.Prompt{}
	tests := []struct {
		name    string
		config  fake.Config
		prompts placetest.Prompts
	}{
		{"at once", fake.Config{Traits: fleet.Traits{SupportsChanges: true, SupportsOutput: true, SupportsChecks: true, SupportsBundles: true}}, placetest.FakePrompts()},
		{"slow", fake.Config{BuildPolls: 3, NoMessages: true, NoQuestions: true, Traits: fleet.Traits{Adopts: true, UniqueNames: true}}, reducedPrompts},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := placetest.Harness{
				New: func(t *testing.T) fleet.Place {
					config := tt.config // each place has its own copy
					config.Projects = append(fake.DefaultProjects(), fake.Project{Project: fleet.Project{Name: "Prompt", SpecIsTask: true}})
					p := fake.New(config)
					t.Cleanup(p.Destroy)
					return p
				},
				Reopen: func(_ *testing.T, p fleet.Place) fleet.Place { return p },
				Hide: func(_ *testing.T, p fleet.Place, a fleet.Agent) func() {
					p.(*fake.Place).HideWorkspace(a.UID)
					return func() { p.(*fake.Place).ShowWorkspace(a.UID) }
				},
				ChangeCaller: func(_ *testing.T, p fleet.Place) func() {
					p.(*fake.Place).SetOtherCaller(true)
					return func() { p.(*fake.Place).SetOtherCaller(false) }
				},
				GiveAway:     func(_ *testing.T, p fleet.Place, a fleet.Agent) { p.(*fake.Place).GiveAway(a.UID, "another Fleet") },
				Project:      "Setup",
				Role:         "operator",
				SelfStarting: "Prompt",
				Prompts:      tt.prompts,
				TimeLimit:    20 * time.Millisecond,
			}
			if tt.config.Traits.SupportsChanges {
				h.Checks = placetest.FakeChecks()
				h.Landing = placetest.LandingProject{
					Project: "DataOne", File: "dir/file.go", HasBoth: "has dir/file.go; has other.go",
					Change:   "change dir/file.go package one",
					Conflict: "change dir/file.go package three",
					Other:    "change other.go package two",
				}
			}
			placetest.Run(t, h)
		})
	}
}
