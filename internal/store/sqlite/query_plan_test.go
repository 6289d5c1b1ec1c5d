package sqlite

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// TestQueryPlans checks that frequent queries do not scan or sort a whole table.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	where := func(f fleet.EventFilter) string {
		w, _ := eventConditions(f)
		return selectEvents + w
	}
	find := func(f fleet.TaskFilter) string {
		return taskConditions(f, false).numbersQuery(`tasks`, newestFirst)
	}
	toolset := fleet.ToolsetFleet
	usage := func(part record.UsageTasks) string {
		return `SELECT ''` + usageOfTasks + usageConditions(part).where + `true`
	}
	since := fleet.TaskFilter{Since: time.Unix(1, 0)}
	const follow, newest = `seq > ? ORDER BY seq LIMIT ?`, `seq > 0 ORDER BY seq DESC LIMIT ?`
	for _, c := range []struct{ query, want string }{
		{record.SelectAgents + `WHERE uid = ?`, "SEARCH agents USING INDEX sqlite_autoindex_agents_1 (uid=?)"},
		{record.SelectAgents + `WHERE name_key = ? AND deleted_at IS NULL` + record.ByName, "SEARCH agents USING INDEX agents_name (name_key=?)"},
		{record.SelectAgents + `WHERE name_key = ? AND owner = ? AND deleted_at IS NULL` + record.ByName, "SEARCH agents USING INDEX agents_name (name_key=? AND owner=?)"},
		{record.SelectAgents + `WHERE deleted_at IS NULL` + record.ByName, "SCAN agents USING INDEX agents_name"},
		{record.SelectTasks + `WHERE id = ?`, "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"},
		{record.SelectTasks + `WHERE agent_uid = ? AND ` + record.RunningCondition, "SEARCH tasks USING INDEX tasks_active (agent_uid=?)"},
		{record.SelectTasks + `WHERE agent_uid ` + inList + ` AND ` + record.RunningCondition, "SEARCH tasks USING INDEX tasks_active (agent_uid=?)"},
		{record.SelectTasks + `WHERE true AND ` + record.RunningCondition, "SCAN tasks USING INDEX tasks_active"},
		{selectOwnedAgents, "SEARCH owned USING PRIMARY KEY (owner=?)"},
		{selectOwnedInToolset, "SEARCH owned USING PRIMARY KEY (owner=? AND toolset=?)"},
		{countOwnedTasks, "SEARCH tasks USING COVERING INDEX tasks_owned (owner=? AND status=?)"},
		{countProjectAgents, "SEARCH agents USING COVERING INDEX agents_project (project=? AND deleted_at=?)"},
		{countProjectTasks, "SEARCH tasks USING COVERING INDEX tasks_project (project=? AND status=?)"},
		{selectOwnedBytes, "SEARCH stored USING PRIMARY KEY (owner=?)"},
		{selectAgentTasks, "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{`SELECT count(*) FROM tasks WHERE agent_uid = ?`, "SEARCH tasks USING COVERING INDEX tasks_history (agent_uid=?)"},
		{selectTaskIDs, "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id>? AND id<?)"},
		{record.SelectAgents + record.NewestAgent, "SEARCH agents USING INDEX agents_ever (name_key=?)"},
		{selectOldPayloads, "SEARCH tasks USING INDEX tasks_payload (ended_at<?)"},
		{record.DeleteEvents, "events_task (task_id=?)"},
		{record.DeleteMessages, "messages_task (task_id=?)"},
		{record.DeleteQuestions, "questions_task (task_id=?)"},
		{usage(record.UsageTasks{Filter: since, Status: record.ActiveCondition}), "SCAN tasks USING INDEX tasks_project"},
		{usage(record.UsageTasks{Filter: since, Status: record.EndedCondition}), "SEARCH tasks USING INDEX tasks_listed (created_at>?)"},
		{usage(record.UsageTasks{Filter: since, Agents: []string{"u"}, ExceptOwner: "x"}), "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{find(fleet.TaskFilter{}), "SCAN tasks USING COVERING INDEX tasks_listed"},
		{find(fleet.TaskFilter{Since: time.Unix(1, 0)}), "SEARCH tasks USING COVERING INDEX tasks_listed (created_at>?)"},
		{find(fleet.TaskFilter{Owner: "x", Toolset: &toolset}), "SEARCH tasks USING COVERING INDEX tasks_listed_owner (owner=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Status: fleet.TaskCompleted}), "SEARCH tasks USING COVERING INDEX tasks_listed_toolset (toolset=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Status: fleet.TaskFailed, Owner: "x"}), "SEARCH tasks USING COVERING INDEX tasks_listed_status (status=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Source: fleet.SourceAgent}), "SEARCH tasks USING COVERING INDEX tasks_listed_source (source=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Project: "x"}), "SEARCH tasks USING COVERING INDEX tasks_listed_project (project=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, AgentUID: "x"}), "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{find(fleet.TaskFilter{Selector: fleet.Selector{{Key: "env"}}, Owner: "x", Toolset: &toolset}), "SCAN tasks USING INDEX tasks_labelled"},
		{record.SelectDeliveries + `webhook = ?` + record.NewestDeliveries, "SEARCH deliveries USING INDEX deliveries_webhook (webhook=?)"},
		{record.SelectDeliveries + `webhook = ?` + record.DueDeliveries, "SEARCH deliveries USING INDEX deliveries_waiting (webhook=?)"},
		{pruneDeliveries, "SEARCH deliveries USING COVERING INDEX deliveries_created (created_at<?)"},
		{selectLastSeq, "SEARCH events"},
		{selectChangedAgents, "SEARCH events USING COVERING INDEX events_changes (seq>?)"},
		{selectChangedAgents, "SEARCH leases USING PRIMARY KEY (key=?)"},
		{where(fleet.EventFilter{}) + follow, "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)"},
		{where(fleet.EventFilter{Owner: "x"}) + follow, "SEARCH events USING INDEX events_owner (owner=? AND seq>?)"},
		{where(fleet.EventFilter{AgentName: "x"}) + newest, "SEARCH events USING INDEX events_name (name_key=? AND seq>?)"},
		{where(fleet.EventFilter{AgentUID: "x"}) + newest, "SEARCH events USING INDEX events_agent (agent_uid=? AND seq>?)"},
		{where(fleet.EventFilter{TaskID: "x"}) + follow, "SEARCH events USING INDEX events_task (task_id=? AND seq>?)"},
	} {
		plan := queryPlan(t, s, c.query)
		assert.Contains(t, plan, c.want, c.query)
		assert.NotContains(t, plan, "TEMP B-TREE FOR ORDER", c.query)
		for line := range strings.Lines(plan) {
			assert.True(t, !strings.HasPrefix(line, "SCAN") || strings.Contains(line, " INDEX ") || strings.Contains(line, "json_each") || strings.HasPrefix(line, "SCAN (subquery"), plan)
		}
	}
}

func queryPlan(t *testing.T, s *Store, query string) string {
	t.Helper()
	n := strings.Count(query, "?")
	for _, number := range regexp.MustCompile(`\?(\d+)`).FindAllStringSubmatch(query, -1) {
		index, err := strconv.Atoi(number[1])
		require.NoError(t, err)
		n = max(n, index)
	}
	args := make([]any, n)
	for i := range args {
		args[i] = 1
	}
	rows, err := s.dbs[0].QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query, args...)
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		plan.WriteString(detail + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

// TestQueryPlansOfFewTasks checks the plans of queries that find only a few tasks. These queries may sort the tasks.
func TestQueryPlansOfFewTasks(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	toolset := fleet.ToolsetFleet
	for _, c := range []struct {
		filter fleet.TaskFilter
		want   string
	}{
		{fleet.TaskFilter{Toolset: &toolset, Owner: "x", AgentName: "x"}, "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{fleet.TaskFilter{Toolset: &toolset, Owner: "x", SharedUIDs: []string{"u"}}, "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"},
	} {
		assert.Contains(t, queryPlan(t, s, taskConditions(c.filter, false).numbersQuery(`tasks`, newestFirst)), c.want)
	}
}

// TestQueryPlanOfTexts checks that a search for a text ends when it has found enough tasks.
func TestQueryPlanOfTexts(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	toolset := fleet.ToolsetFleet
	q := taskConditions(fleet.TaskFilter{Toolset: &toolset, Owner: "x", Since: time.Unix(1, 0)}, true)
	q.add(`tasks_text MATCH ?`)
	q.addAfter(position{}, true)
	plan := queryPlan(t, s, q.numbersQuery(fromTextIndex, lastInsertedFirst))
	assert.Contains(t, plan, "SCAN tasks_text VIRTUAL TABLE INDEX")
	assert.Contains(t, plan, "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)")
	assert.NotContains(t, plan, "TEMP B-TREE")
}
