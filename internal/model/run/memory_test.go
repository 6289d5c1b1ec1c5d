//go:build cgo

package run_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// rememberDoc is a definition with todos and memories. SHARED stands for true or false: whether its agents share their todos.
const rememberDoc = workerDoc + `    toolsets: [{type: todo, shared: SHARED}, {type: memory, path: memory.db}]
`

// switchAgent creates another agent, which the next tasks of the fixture use.
func (f *fixture) switchAgent(owner, name string) {
	f.t.Helper()
	agentConfig := *f.agent.Config
	agentConfig.Name = name
	f.agent.UID, f.agent.Owner, f.agent.Config = uuid.NewString(), owner, &agentConfig
	_, err := f.place.Provision(f.t.Context(), f.agent)
	require.NoError(f.t, err)
}

// TestTodosAndMemories checks that todos last as long as the session, and that memories are shared by sessions of the
// same owner and definition.
func TestTodosAndMemories(t *testing.T) {
	t.Parallel()
	for _, shared := range []string{"false", "true"} {
		t.Run("shared "+shared, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, fleet.AgentConfig{Name: "helper", Document: strings.ReplaceAll(rememberDoc, "SHARED", shared), Allow: []string{"*"}}, nil)
			stored := func() []string {
				return d.callTools("list_todos", map[string]any{}, "get_memories", map[string]any{})
			}
			results := d.callTools("create_todo", map[string]any{"description": "look"}, "create_todos", map[string]any{"descriptions": []string{"think", "write"}},
				"update_todo", map[string]any{"id": "todo_2", "status": "completed"}, "update_todo", map[string]any{"id": "todo_9", "status": "completed"},
				"add_memory", map[string]any{"memory": "Ann likes tabs."})
			require.Contains(t, results[3], "not found")
			list := "Current todos:\n- [todo_1] look (Status: pending)\n- [todo_2] think (Status: completed)\n- [todo_3] write (Status: pending)"
			require.Equal(t, list, strings.TrimSpace(stored()[0]))
			require.NoError(t, d.place.Close())
			d.open() // as another process would
			results = stored()
			require.Equal(t, list, strings.TrimSpace(results[0]))
			require.Contains(t, results[1], "Ann likes tabs.")

			first := d.agent
			d.switchAgent("alice", "helper") // another session
			results = stored()
			require.Equal(t, "Current todos:", strings.TrimSpace(results[0]))
			require.Contains(t, results[1], "Ann likes tabs.")
			_, err := d.place.Delete(t.Context(), first)
			require.NoError(t, err)
			require.Contains(t, stored()[1], "Ann likes tabs.", "memories must outlive the session that stored them")

			for _, who := range [][2]string{{"bob", "helper"}, {"alice", "other"}, {"alice", ""}} {
				d.switchAgent(who[0], who[1])
				require.NotContains(t, stored()[1], "Ann", who)
			}
		})
	}
}
