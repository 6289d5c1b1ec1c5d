package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var projectCases = []testCase{
	{"filters select tasks, questions and events by the projects of their agents", func(t *testing.T, s fleet.Store) {
		local, elsewhere, other, none := newAgent("u1", "a", "alice"), newAgent("u2", "b", "alice"), newAgent("u3", "c", "alice"), newAgent("u4", "d", "alice")
		elsewhere.Place, other.Project, none.Project = "coder", "DataOne", ""
		for _, a := range []*fleet.Agent{local, elsewhere, other, none} {
			task := newTask("t-"+a.UID, a)
			insertRows(t, s, a, task, newQuestion("q-"+a.UID, task.ID, a))
			update(t, s, func(tx fleet.Tx) error { return tx.Append(newEvent(fleet.EventAgentCreated, a, "created")) })
		}
		for _, c := range []struct {
			projects, want []string
		}{
			{nil, []string{"u1", "u2", "u3", "u4"}},
			{[]string{"Setup"}, []string{"u1", "u2"}},
			{[]string{"coder/Setup"}, []string{"u2"}},
			{[]string{"coder/Setup", "DataOne"}, []string{"u2", "u3"}},
			{[]string{"setup", "local/", "", "local/DataOn"}, nil},
		} {
			view(t, s, func(tx fleet.ReadTx) error {
				found, err := tx.FindTasks(fleet.TaskFilter{Owner: "alice", Projects: c.projects}, fleet.TaskWindow{Limit: 10})
				require.NoError(t, err)
				require.Len(t, c.want, found.Total)
				var got []string
				for _, task := range found.Tasks {
					got = append(got, task.AgentUID)
				}
				require.ElementsMatch(t, c.want, got, "%q", c.projects)
				_, sum, err := tx.Usage(fleet.TaskFilter{Projects: c.projects}, fleet.UsageByOwner, 10)
				require.NoError(t, err)
				require.Equal(t, len(c.want), sum.Tasks)

				questions, total, err := tx.Questions(fleet.QuestionFilter{Owner: "alice", Projects: c.projects}, 10, 0)
				require.NoError(t, err)
				require.Len(t, c.want, total)
				got = nil
				for _, q := range questions {
					got = append(got, q.AgentUID)
				}
				require.ElementsMatch(t, c.want, got, "%q", c.projects)

				events, err := tx.Events(fleet.EventFilter{Owner: "alice", Projects: c.projects}, fleet.EventWindow{Limit: 10})
				require.NoError(t, err)
				got = nil
				for _, e := range events {
					got = append(got, e.AgentUID)
				}
				require.ElementsMatch(t, c.want, got, "%q", c.projects)
				return nil
			})
		}
	}},
}
