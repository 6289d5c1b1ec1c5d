package app

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// TestProjectRestriction attacks alice's agents and tasks with a token of alice that is restricted to another project. It does so on
// every face, with every method of FleetService that does not create agents. Each attack must get the same answer as for an object
// that does not exist.
func TestProjectRestriction(t *testing.T) {
	t.Parallel()
	for _, face := range []string{"grpc", "rest", "mcp"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}},
				step{Agent: map[string]any{"name": "papi", "spec": "classified spec"}, Caller: "alice"},
				step{Task: map[string]any{"agent_name": "papi", "task_description": "echo classified output\nask classified question?"}, Caller: "alice", Save: map[string]string{"task": "task.id"}},
				step{Call: "list_questions", Caller: "alice", Until: map[string]any{"total_count": json.Number("1")}, Save: map[string]string{"question": "questions.0.id"}},
				step{Agent: map[string]any{"name": "sony", "project": "DataOne"}, Caller: "alice"},
			)

			admin := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "root", Scope: fleet.ScopeAdmin})
			_, err := f.service.RevokeToken(admin, "alice")
			require.NoError(t, err)
			_, secret, owned, err := f.service.CreateToken(admin, service.CreateTokenRequest{
				Name: "alice", Kind: fleet.KindHuman, Scope: fleet.ScopeRun, Projects: []string{"dataone"},
			})
			require.NoError(t, err)
			require.Equal(t, 2, owned)
			f.secrets["restricted"] = secret

			task, question := f.variables["task"], f.variables["question"]
			for _, name := range slices.Sorted(maps.Keys(methods)) {
				m := methods[name]
				if m.Parent().Name() != "FleetService" || createsAgents(name) || !offers(face, m) {
					continue
				}
				for _, suffix := range []string{"", "@alice", "!"} {
					answer := func(x target) string {
						r := f.call(t, face, name, "restricted", x.arguments(t, m))
						if r.err != nil {
							return r.err.String()
						}
						if fields, ok := r.answer.(map[string]any); ok {
							delete(fields, "plan_id") // each plan has its own
						}
						b, err := json.Marshal(r.answer)
						require.NoError(t, err)
						return string(b)
					}
					missingAnswer := answer(target{"nopi" + suffix, missingID, missingID, missingID, missingID + "-1"})
					got := answer(target{"papi" + suffix, task, missingID, missingID, question})
					require.NotContains(t, got, "classified", name)
					replacer := strings.NewReplacer("nopi", "papi", missingID+"-1", question, missingID, task)
					require.Equal(t, anyTime.ReplaceAllString(replacer.Replace(missingAnswer), ""), anyTime.ReplaceAllString(got, ""), "%s reveals what exists", name)
				}
			}
			r := f.call(t, face, "list_agents", "restricted", nil)
			require.Nil(t, r.err)
			b, err := json.Marshal(r.answer)
			require.NoError(t, err)
			require.Contains(t, string(b), `"sony"`)
			require.NotContains(t, string(b), `"papi"`)
		})
	}
}
