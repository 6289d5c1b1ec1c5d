package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

func newQuestion(id, taskID string, a *fleet.Agent) *fleet.Question {
	return &fleet.Question{
		ID: id, TaskID: taskID, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Kind: fleet.AskText, Status: fleet.QuestionWaiting,
		Text: "tabs or spaces?", AskedAt: noon, ExpiresAt: noon.Add(time.Hour),
	}
}

var questionCases = []testCase{
	{"questions come back with every field, newest first", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		full := newQuestion("t1-1", "t1", a)
		full.Kind, full.Tool, full.Input, full.Options = fleet.AskPermission, "Bash", []byte(`{"command":"日本"}`), []string{"once", "always", "\U0010FE41"}
		full.Status, full.Answer, full.Message, full.AnsweredBy = fleet.QuestionAnswered, fleet.AnswerDeny, "use 'make' ✓", "alice"
		full.AnsweredAt, full.DeliveredAt = noon.Add(time.Minute), noon.Add(2*time.Minute)
		full.Rules, full.Remember = []string{"Bash(make *)", "Bash(日本 *)"}, fleet.RememberAgent
		waiting := newQuestion("t1-2", "t1", a)
		waiting.Kind, waiting.ExpiresAt = fleet.AskBudget, time.Time{}
		other := newQuestion("t2-1", "t2", a)
		other.Status, other.AnsweredAt, other.Answer, other.Owner, other.AgentName = fleet.QuestionAnswered, noon, "tabs", "bob", "Other"
		ended := newTask("t2", a)
		ended.Status, ended.EndedAt = fleet.TaskCompleted, noon
		insertRows(t, s, ended, newTask("t1", a), full, waiting, other)
		require.Equal(t, full, getQuestion(t, s, "t1-1"))
		require.Nil(t, getQuestion(t, s, "t1-3"))
		for _, c := range []struct {
			filter fleet.QuestionFilter
			want   []*fleet.Question
		}{
			{fleet.QuestionFilter{}, []*fleet.Question{other, waiting, full}},
			{fleet.QuestionFilter{TaskID: "t1"}, []*fleet.Question{waiting, full}},
			{fleet.QuestionFilter{Owner: "bob"}, []*fleet.Question{other}},
			{fleet.QuestionFilter{Owner: "bob", SharedUIDs: []string{a.UID}}, []*fleet.Question{other, waiting, full}},
			{fleet.QuestionFilter{Owner: "carol", SharedUIDs: []string{a.UID}, Waiting: true}, []*fleet.Question{waiting}},
			{fleet.QuestionFilter{AgentUID: "nobody"}, nil},
			{fleet.QuestionFilter{AgentName: "oTHER"}, []*fleet.Question{other}},
			{fleet.QuestionFilter{Prefix: "t1-"}, []*fleet.Question{waiting, full}},
			{fleet.QuestionFilter{Waiting: true}, []*fleet.Question{waiting}},
			{fleet.QuestionFilter{Undelivered: true}, []*fleet.Question{other}},
			{fleet.QuestionFilter{TaskID: "t1", Undelivered: true}, nil},
		} {
			got, total := getQuestions(t, s, c.filter, 10, 0)
			require.Equal(t, c.want, got, "%+v", c.filter)
			require.Equal(t, len(c.want), total)
		}
		page, total := getQuestions(t, s, fleet.QuestionFilter{}, 1, 1)
		require.Equal(t, []*fleet.Question{waiting}, page)
		require.Equal(t, 3, total)
		_, total = getQuestions(t, s, fleet.QuestionFilter{TaskID: "t1"}, 0, 0)
		require.Equal(t, 2, total)
	}},

	{"a final status never changes", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		q := newQuestion("t1-1", "t1", a)
		gone := newQuestion("t1-2", "t1", a)
		insertRows(t, s, newTask("t1", a), q, gone)
		q.Status, q.Answer, q.AnsweredBy, q.AnsweredAt = fleet.QuestionAnswered, "tabs", "alice", noon
		gone.Status = fleet.QuestionWithdrawn
		updateRows(t, s, gone, q)
		q.DeliveredAt = noon.Add(time.Second)
		updateRows(t, s, q)
		require.Equal(t, q, getQuestion(t, s, q.ID))
		for _, x := range []fleet.Question{
			{ID: "t1-1", Status: fleet.QuestionExpired},
			{ID: "t1-1", Status: fleet.QuestionWaiting},
			{ID: "t1-2", Status: fleet.QuestionAnswered, AnsweredAt: noon},
			{ID: "none", Status: fleet.QuestionExpired},
		} {
			requireInternal(t, tryUpdate(t, s, &x))
		}
		require.Equal(t, q, getQuestion(t, s, q.ID))
	}},

	{"an answer keeps its rules, and how long they are remembered", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		insertRows(t, s, newTask("t1", a))
		for i, remember := range []fleet.RememberScope{"", fleet.RememberOnce, fleet.RememberTask, fleet.RememberAgent} {
			q := newQuestion(fmt.Sprintf("t1-%d", i), "t1", a)
			q.Kind, q.Rules = fleet.AskPermission, []string{"Bash(make *)"}
			insertRows(t, s, q)
			q.Status, q.Answer, q.AnsweredBy, q.AnsweredAt, q.Remember = fleet.QuestionAnswered, fleet.AnswerAllow, "alice", noon, remember
			updateRows(t, s, q)
			require.Equal(t, q, getQuestion(t, s, q.ID))
		}
		odd := newQuestion("t1-9", "t1", a)
		odd.Remember = "forever"
		requireInternal(t, tryInsert(t, s, odd))
	}},

	{"a question needs a new id, an existing task and a known kind", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		insertRows(t, s, newTask("t1", a), newQuestion("t1-1", "t1", a))
		odd := newQuestion("t1-2", "t1", a)
		odd.Kind = "riddle"
		for _, q := range []*fleet.Question{newQuestion("t1-1", "t1", a), newQuestion("t1-2", "none", a), newQuestion("", "t1", a), odd} {
			requireInternal(t, tryInsert(t, s, q))
		}
	}},
}

func getQuestion(t tb, s fleet.Store, id string) *fleet.Question {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Question, error) { return fleet.QuestionByID(tx, id) })
}

func getQuestions(t tb, s fleet.Store, f fleet.QuestionFilter, limit, offset int) (questions []*fleet.Question, total int) {
	t.Helper()
	questions = read(t, s, func(tx fleet.ReadTx) (q []*fleet.Question, err error) {
		q, total, err = tx.Questions(f, limit, offset)
		return q, err
	})
	return questions, total
}
