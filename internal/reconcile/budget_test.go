package reconcile_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// costs5Cents is a line of a script that costs 5 cents.
const costs5Cents = `data {"type":"usage","usage":{"model":"m","input":10,"output":5,"cost_usd":0.05}}` + "\n"

func setBudget(h *servicetest.Harness, b fleet.Budget) {
	h.T.Helper()
	_, err := h.SetBudget(servicetest.AsAdmin(h.T.Context()), b, "")
	require.NoError(h.T, err)
}

// checkedLedger returns the budget with its ledger. It fails the test if the entries do not add up to the budget's totals.
func checkedLedger(h *servicetest.Harness, name string) *service.BudgetLedger {
	h.T.Helper()
	l, err := h.ShowBudget(servicetest.AsAdmin(h.T.Context()), service.ShowBudgetRequest{Name: name, Limit: new(500)})
	require.NoError(h.T, err)
	require.Zero(h.T, l.Next)
	var reserved, spent fleet.Amount
	for _, e := range l.Entries {
		reserved, spent = reserved.Plus(e.Reserved), spent.Plus(e.Spent)
	}
	require.Equal(h.T, l.Total.Reserved, reserved)
	require.Equal(h.T, l.Total.Spent, spent)
	return l
}

func maxCost(usd float64) fleet.TaskOptions { return fleet.TaskOptions{MaxCostUSD: &usd} }

// waits returns the waits of the pending task; nil if the task is not pending.
func waits(h *servicetest.Harness, id string) []fleet.Wait {
	h.T.Helper()
	l, err := h.ListQueue(h.Context(), service.ListQueueRequest{})
	require.NoError(h.T, err)
	for _, i := range l.Items {
		if i.ID == id {
			return i.Waits
		}
	}
	return nil
}

// TestBudgetHold checks that a task that has used up its limit waits, and continues when the limit is raised.
func TestBudgetHold(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	setBudget(h, fleet.Budget{Name: "all", Limit: 1_000_000})
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: costs5Cents + costs5Cents + "wait gate", Options: maxCost(0.1)})
	require.NoError(t, err)
	h.WaitStored(func() bool { return len(waits(h, task.ID)) > 0 })
	why := waits(h, task.ID)
	require.Equal(t, "the task has used its own limit of $0.10", why[0].Text)
	require.Equal(t, fleet.LedgerTotal{LedgerKey: checkedLedger(h, "all").Key, Spent: fleet.Amount{Micros: 100_000, Tokens: 30}}, checkedLedger(h, "all").Total)
	_, err = h.RaiseTaskBudget(h.Context(), task.ID, 0.1, "")
	require.ErrorContains(t, err, "max_cost_usd is $0.10, and the task has already used $0.10: give more")
	raised, err := h.RaiseTaskBudget(h.Context(), task.ID, 0.5, "")
	require.NoError(t, err)
	require.Equal(t, fleet.TaskPending, raised.Status)
	h.FakePlace.Release("gate")
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskCompleted, ended.Status, ended.Reason)
	require.Equal(t, fleet.Micros(200_000), ended.Used().Micros)
	require.Equal(t, fleet.Amount{Micros: 200_000, Tokens: 60}, checkedLedger(h, "all").Total.Spent)
	require.Equal(t, []string{"the task is handed to the agent", "the agent goes on"}, h.TaskEvents(task.ID, fleet.EventTaskStarted))
	_, err = h.RaiseTaskBudget(h.Context(), task.ID, 1, "")
	require.Equal(t, fleet.ReasonTaskNotPending, fleet.ReasonOf(err))
}

// TestLowerTaskBudget lowers the limit of a running task. The task gives back the money that it can no longer use, even if the budget has
// none left.
func TestLowerTaskBudget(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	setBudget(h, fleet.Budget{Name: "all", Limit: 1_000_000})
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "wait gate", Options: maxCost(0.8)})
	require.NoError(t, err)
	require.Equal(t, fleet.Micros(800_000), checkedLedger(h, "all").Total.Reserved.Micros)
	setBudget(h, fleet.Budget{Name: "all", Limit: 100_000})
	for _, usd := range []float64{0.5, 0.3} {
		_, err := h.RaiseTaskBudget(h.Context(), task.ID, usd, "")
		require.NoError(t, err)
		require.Equal(t, fleet.MicrosOf(usd), checkedLedger(h, "all").Total.Reserved.Micros)
	}
	_, err = h.RaiseTaskBudget(h.Context(), task.ID, 0.4, "")
	require.Equal(t, fleet.ReasonBudgetExceeded, fleet.ReasonOf(err))
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Zero(t, checkedLedger(h, "all").Total.Reserved)
}

// TestBudgetAsk checks that a task that has used up its limit continues only after an answer, even after a restart.
func TestBudgetAsk(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	setBudget(h, fleet.Budget{Name: "all", Limit: 1_000_000, OnBreach: fleet.BreachAsk})
	answer := func(q *fleet.Question, text string) error {
		_, _, err := h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: q.ID, Answer: text})
		return err
	}
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: costs5Cents + costs5Cents + "wait gate", Options: maxCost(0.1)})
	require.NoError(t, err)
	q := h.WaitQuestion(task.ID)
	require.Equal(t, fleet.AskBudget, q.Kind)
	require.Equal(t, "its own limit of $0.10 is used up. The task has cost $0.10 so far. What may it cost in all?", q.Text)
	require.Equal(t, []string{"raise to $0.20", "stop"}, q.Options)
	setBudget(h, fleet.Budget{Name: "all", Limit: 2_000_000, OnBreach: fleet.BreachAsk})
	h.Restart()
	why := waits(h, task.ID)
	require.Len(t, why, 1)
	require.Equal(t, fleet.Wait{Reason: fleet.WaitBudget, Subject: "all", Text: "it has used up a budget, and goes on if somebody says so: answer the question " + q.ID, Next: "`answer_question` answers it"}, why[0])
	require.ErrorContains(t, answer(q, "go on"), `answer is "go on": give raise to $0.20, stop, or what the task may cost in all`)
	require.ErrorContains(t, answer(q, "0.1"), "answer is $0.10, and the task has already used $0.10: give more")
	require.NoError(t, answer(q, q.Options[0]))
	require.NoError(t, answer(q, q.Options[0]), "the same answer again")
	require.Equal(t, fleet.ReasonQuestionClosed, fleet.ReasonOf(answer(q, "stop")))

	next := h.WaitQuestion(task.ID)
	require.NotEqual(t, q.ID, next.ID)
	require.Equal(t, []string{"raise to $0.30", "stop"}, next.Options)
	_, err = h.RaiseTaskBudget(h.Context(), task.ID, 0.5, "")
	require.NoError(t, err)
	require.Equal(t, fleet.ReasonQuestionClosed, fleet.ReasonOf(answer(next, "stop")))
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, fleet.Micros(300_000), checkedLedger(h, "all").Total.Spent.Micros)
}

// TestBudgetAskWhenUsedUp checks the question about a budget that is used up. After the answer "go on", the task continues when the
// budget has room. The other answer stops the task, and a stop of the task withdraws the question.
func TestBudgetAskWhenUsedUp(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	b := fleet.Budget{Name: "all", Limit: 100_000, OnBreach: fleet.BreachAsk}
	setBudget(h, b)
	var tasks []*fleet.Task
	for _, name := range []string{"a", "b", "c"} {
		h.Create(name)
		tasks = append(tasks, queueTask(h, name, costs5Cents+costs5Cents+costs5Cents+"wait gate", fleet.QueueEntry{}))
		q := h.WaitQuestion(tasks[len(tasks)-1].ID)
		require.Contains(t, q.Text, `the budget "all" (`)
		require.Equal(t, []string{"go on", "stop"}, q.Options)
		b.Limit += 150_000
		setBudget(h, b)
	}
	q := h.WaitQuestion(tasks[0].ID)
	_, _, err := h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: q.ID, Answer: "stop"})
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, h.WaitTask(tasks[0].ID).Status)
	b.Limit = 2_000_000
	setBudget(h, b)
	_, _, err = h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: h.WaitQuestion(tasks[1].ID).ID, Answer: "go on"})
	require.NoError(t, err)
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(tasks[1].ID).Status)
	q = h.WaitQuestion(tasks[2].ID)
	_, _, err = h.StopTaskByID(h.Context(), tasks[2].ID, "")
	require.NoError(t, err)
	l, err := h.ListQuestions(h.Context(), service.ListQuestionsRequest{TaskID: tasks[2].ID, IncludeAnswered: true})
	require.NoError(t, err)
	require.Equal(t, q.ID, l.Questions[0].ID)
	require.Equal(t, fleet.QuestionWithdrawn, l.Questions[0].Status)
}

// TestBudgetStop checks that a task without a limit of its own reserves more while it runs, and fails when there is no more.
func TestBudgetStop(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	setBudget(h, fleet.Budget{Name: "all", Limit: 600_000, OnBreach: fleet.BreachStop})
	withinBudget := h.Start("papi", strings.Repeat(costs5Cents, 11)+"wait gate\ndone")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool {
		return v.Task != nil && v.Task.Used().Micros == 550_000 && v.Task.Spending.Reserve.Micros == 600_000
	})
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(withinBudget.ID).Status)
	require.Equal(t, fleet.Micros(550_000), checkedLedger(h, "all").Total.Spent.Micros)
	setBudget(h, fleet.Budget{Name: "all", Limit: 1_200_000, OnBreach: fleet.BreachStop})
	overBudget := h.Start("papi", strings.Repeat(costs5Cents, 13)+"wait never")
	ended := h.WaitTask(overBudget.ID)
	require.Equal(t, fleet.TaskFailed, ended.Status)
	require.Equal(t, fleet.CodeBudget, ended.ReasonCode)
	require.Equal(t, `the budget "all" ($1.20 for fleet) is used up`, ended.Reason)
	require.Nil(t, ended.Spending.Reserve)
	require.Equal(t, fleet.LedgerTotal{LedgerKey: checkedLedger(h, "all").Key, Spent: fleet.Amount{Micros: 1_200_000, Tokens: 360}}, checkedLedger(h, "all").Total)
}

// TestBudgetTokens checks a budget of tokens, and that the task continues when the budget is raised.
func TestBudgetTokens(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	setBudget(h, fleet.Budget{Name: "tokens", Scope: fleet.BudgetAgent, Value: "papi", Window: fleet.WindowMonth, TokenLimit: 20})
	task := h.Start("papi", costs5Cents+costs5Cents+"wait gate")
	h.WaitStored(func() bool { return len(waits(h, task.ID)) > 0 })
	require.Contains(t, waits(h, task.ID)[0].Text, `the budget "tokens" (20 tokens a month for agent papi) has 0 tokens left, and the task reserves 5 tokens`)
	require.Equal(t, int64(30), checkedLedger(h, "tokens").Total.Spent.Tokens)
	setBudget(h, fleet.Budget{Name: "tokens", Scope: fleet.BudgetAgent, Value: "papi", Window: fleet.WindowMonth, TokenLimit: 2000})
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, int64(60), checkedLedger(h, "tokens").Total.Spent.Tokens)
}

// TestBudgetUnpriced checks that a task whose model has no known price starts only if the budget allows that.
func TestBudgetUnpriced(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	unknown := `data {"type":"usage","usage":{"model":"m-9","input":10,"output":5}}` + "\ndone"
	require.Equal(t, fleet.CostUnknown, h.WaitTask(h.Start("papi", unknown).ID).Spending.Basis)
	b := fleet.Budget{Name: "all", Limit: 1_000_000}
	setBudget(h, b)
	_, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done"})
	require.ErrorContains(t, err, `the budget "all" ($1.00 for fleet) limits money, and the price of the model "m-9" is not known: give the model a price`)
	b.Unpriced = fleet.UnpricedAllow
	setBudget(h, b)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)
}

// TestBudgetLongOutput checks that usage counts even if it is in output that exceeds the limit and is not in the event log.
func TestBudgetLongOutput(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.MaxOutput = 10 })
	setBudget(h, fleet.Budget{Name: "all", Limit: 400_000, OnBreach: fleet.BreachStop})
	ended := h.WaitTask(h.Start("papi", "echo more than ten bytes\n"+strings.Repeat(costs5Cents, 8)+"wait never").ID)
	require.Equal(t, fleet.CodeBudget, ended.ReasonCode, ended.Reason)
	require.Equal(t, fleet.Amount{Micros: 400_000, Tokens: 120}, ended.Used())
	require.Equal(t, fleet.Amount{Micros: 400_000, Tokens: 120}, checkedLedger(h, "all").Total.Spent)
}

// TestBudgetBill checks that the ledger has what the tasks have cost, to the millionth of a dollar, although the server is
// restarted again and again. Some of the tasks wait until the budget is raised.
func TestBudgetBill(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	agents := []string{"a", "b", "c", "d"}
	for _, name := range agents {
		h.Create(name)
	}
	setBudget(h, fleet.Budget{Name: "all", Limit: 1_500_000})
	var tasks []*fleet.Task
	var sum fleet.Micros
	for i := range 30 {
		n := i%4 + 1
		sum += fleet.Micros(n) * 50_000
		task, err := h.QueueTask(h.Context(), service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{
			Agent: agents[i%4], Description: strings.Repeat(costs5Cents+"work 1ms\n", n) + "done", Options: maxCost(0.3),
		}})
		require.NoError(t, err)
		tasks = append(tasks, task)
	}
	for range 5 {
		h.Restart()
	}
	h.WaitStored(func() bool { // the tasks wait only for the budget, and nothing runs
		l, err := h.ListQueue(h.Context(), service.ListQueueRequest{})
		require.NoError(t, err)
		for _, i := range l.Items {
			if len(i.Waits) == 0 || i.Waits[0].Reason != fleet.WaitBudget {
				return false
			}
		}
		return len(l.Items) > 0 && checkedLedger(h, "all").Total.Reserved == fleet.Amount{}
	})
	require.LessOrEqual(t, checkedLedger(h, "all").Total.Spent.Micros, fleet.Micros(1_500_000))
	setBudget(h, fleet.Budget{Name: "all", Limit: 10_000_000})
	for i, task := range tasks {
		if i%5 == 0 {
			h.Restart()
		}
		require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	}
	all := checkedLedger(h, "all")
	require.Equal(t, fleet.LedgerTotal{LedgerKey: all.Key, Spent: fleet.Amount{Micros: sum, Tokens: int64(sum) / 50_000 * 15}}, all.Total)
}

// TestBudgetOfRole checks that a task without its own limit has the limit of its role, with and without budgets.
func TestBudgetOfRole(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{MaxCosts: map[string]fleet.Micros{"coder": 100_000}}, nil)
	ended := h.WaitTask(h.Start("papi", costs5Cents+costs5Cents+costs5Cents+"wait never").ID)
	require.Equal(t, fleet.TaskFailed, ended.Status)
	require.Equal(t, fleet.CodeBudget, ended.ReasonCode)
	require.Equal(t, "its own limit of $0.10 is used up", ended.Reason)
	withOwnLimit, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: costs5Cents + costs5Cents + costs5Cents + "done", Options: maxCost(1)})
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(withOwnLimit.ID).Status)

	setBudget(h, fleet.Budget{Name: "all", Limit: 1_000_000})
	task := h.Start("papi", "wait gate\n"+costs5Cents+costs5Cents+"wait end")
	require.Equal(t, fleet.Micros(100_000), checkedLedger(h, "all").Total.Reserved.Micros)
	h.FakePlace.Release("gate")
	h.WaitStored(func() bool { return len(waits(h, task.ID)) > 0 })
	require.Equal(t, fleet.Wait{Reason: fleet.WaitBudget, Text: "the task has used its own limit of $0.10", Next: "`raise_task_budget` raises it"}, waits(h, task.ID)[0])
	require.NoError(t, h.DeleteBudget(servicetest.AsAdmin(h.T.Context()), "all", ""))
	require.Equal(t, "the task has used its own limit of $0.10", waits(h, task.ID)[0].Text, "without a budget too")
	h.FakePlace.Release("end")
	_, err = h.RaiseTaskBudget(h.Context(), task.ID, 0.5, "")
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
}

// TestStopDuringBudgetInterruption checks that each way to stop a task ends it even while a budget interrupts it. The task must not wait
// until the budget has room again.
func TestStopDuringBudgetInterruption(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	setBudget(h, fleet.Budget{Name: "all", Limit: 5_000_000})
	stops := map[string]func(ctx context.Context, id string) error{
		"a": func(ctx context.Context, _ string) error { _, _, _, err := h.StopTask(ctx, "a", ""); return err },
		"b": func(ctx context.Context, id string) error { _, _, err := h.StopTaskByID(ctx, id, ""); return err },
		"c": func(ctx context.Context, id string) error { return h.RequestTaskStop(ctx, id) },
	}
	tasks := map[string]string{}
	for name := range stops {
		h.Create(name)
		tasks[name] = h.Start(name, "wait never").ID
		h.WaitAgent(name, func(v *fleet.AgentView) bool { return !v.Task.DispatchedAt.IsZero() })
	}
	h.Reconciler.Stop() // the interruption does not end
	read := func(name string) *fleet.Task {
		return servicetest.Read(h, func(tx fleet.ReadTx) (*fleet.Task, error) { return tx.Task(tasks[name]) })
	}
	for name, stop := range stops {
		require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
			task, err := tx.Task(tasks[name])
			require.NoError(t, err)
			task.StopRequestedAt, task.StopReason, task.Spending.Reserve.Breach = time.Now(), "the budget is used up", fleet.BreachHold
			return tx.Update(task)
		}))
		ctx, cancel := context.WithCancel(h.Context())
		var calls sync.WaitGroup
		calls.Go(func() { _ = stop(ctx, tasks[name]) }) // it waits until the task has ended or ctx is canceled
		h.WaitStored(func() bool { return read(name).StopReason != "the budget is used up" })
		cancel()
		calls.Wait()
	}
	h.Restart()
	for name := range stops {
		ended := h.WaitTask(tasks[name])
		require.Equal(t, fleet.TaskStopped, ended.Status, name)
		require.Contains(t, ended.Reason, "stopped by ", name)
	}
}

// TestTaskLimitGivenLater checks that a limit that a task gets while it runs ends the task.
func TestTaskLimitGivenLater(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	task := h.Start("papi", costs5Cents+"wait gate\n"+costs5Cents+"wait never")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Task.Used().Micros == 50_000 })
	setGivenToChildren := func(given fleet.Micros) {
		require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
			parent, err := tx.Task(task.ID)
			require.NoError(t, err)
			parent.Delegation.Children, parent.Delegation.GivenToChildren = 1, given
			return tx.Update(parent)
		}))
	}
	setGivenToChildren(50_000)
	_, err := h.RaiseTaskBudget(h.Context(), task.ID, 0.1, "")
	require.ErrorContains(t, err, "max_cost_usd is $0.10, and the task has already used $0.05 and given $0.05 to tasks that it has delegated: give more")
	setGivenToChildren(0)
	_, err = h.RaiseTaskBudget(h.Context(), task.ID, 0.1, "")
	require.NoError(t, err)
	h.FakePlace.Release("gate")
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.CodeBudget, ended.ReasonCode)
	require.Equal(t, "its own limit of $0.10 is used up", ended.Reason)
}
