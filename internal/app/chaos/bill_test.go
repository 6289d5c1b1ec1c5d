package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	modelstub "fleet/internal/place/placetest/model"
)

// Parameters of TestChaosBill.
const (
	billPool   = "billed"
	billBudget = "day"
	billCents  = 5 // price of a response
)

// billDefinition is the agent of TestChaosBill, which has a subagent.
const billDefinition = `
models:
  stub: {provider: anthropic, model: stub-large, base_url: %q}
agents:
  root: {model: stub, description: Leads., instruction: You lead., sub_agents: [helper], toolsets: [{type: todo}]}
  helper: {model: stub, description: Helps., instruction: You help., toolsets: [{type: todo}]}
`

// billingModel is a model that bills its responses. It takes some time for a response, and bills a successful response if the client has
// waited for it.
type billingModel struct {
	stub *modelstub.Server

	mu          sync.Mutex
	random      *rand.Rand
	billedCount int // responses that were ready while the client waited
	brokenCount int // requests whose client went away before the response was ready
	unreadCount int // responses that were billed, and could not be written
}

func (b *billingModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	delay := between(b.random, 100*time.Millisecond, 800*time.Millisecond)
	b.mu.Unlock()
	answer := httptest.NewRecorder()
	b.stub.ServeHTTP(answer, r)
	pause(r.Context(), delay)
	b.mu.Lock()
	switch {
	case r.Context().Err() != nil:
		b.brokenCount++
	case answer.Code == http.StatusOK:
		b.billedCount++
	}
	b.mu.Unlock()
	if r.Context().Err() != nil {
		return
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	if _, err := w.Write(answer.Body.Bytes()); err != nil {
		b.mu.Lock()
		b.unreadCount++
		b.mu.Unlock()
	}
}

func (b *billingModel) counts() (billed, broken, unread int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.billedCount, b.brokenCount, b.unreadCount
}

// TestChaosBill lets agents with subagents work on a model that bills 5 cents a response, within a budget for the day. About once a
// second, it kills the server or the supervisor of a run. The model's own bill must stay near the budget, and the ledger must have the
// same sum. With CHAOS, it queues 400 tasks with $10 a day.
func TestChaosBill(t *testing.T) {
	count, usd, attempts, seed := 40, 2.0, 1, seedOf(t)
	if os.Getenv("CHAOS") != "" {
		count, usd, attempts = 400, 10, 3
	}
	stub, err := modelstub.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(stub.Close)
	bill := &billingModel{stub: stub, random: random(seed, 0)}
	endpoint := httptest.NewServer(bill)
	t.Cleanup(endpoint.Close)
	dir := t.TempDir()
	definitions := filepath.Join(dir, "agents")
	require.NoError(t, os.Mkdir(definitions, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(definitions, "team.yaml"), fmt.Appendf(nil, billDefinition, endpoint.URL), 0o600))

	const agents = 8
	f := newFleet(t, "bill", fleet.Limits{Agents: 1000, RunningTasks: 1000})
	s := f.addServer(t, "bill", filepath.Join(dir, "data"))
	s.definitions = definitions
	f.start(t)
	mustCall(t, s, fleetv1.FleetServiceClient.SetBudget, &fleetv1.SetBudgetRequest{Name: billBudget, Window: "day", TimeZone: noonZone(time.Now()), LimitUsd: &usd})
	mustCall(t, s, fleetv1.FleetServiceClient.CreatePool, &fleetv1.CreatePoolRequest{
		Name: billPool, Project: "team", Role: "root", MaxAgents: new(int32(agents)), MaxIdleSeconds: new(int32(3600)),
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var injector sync.WaitGroup
	kills := map[string]int{}
	injector.Go(func() {
		r := random(seed, 2)
		for {
			pause(ctx, between(r, 500*time.Millisecond, 1500*time.Millisecond))
			switch shims := shimsOf(dir); {
			case ctx.Err() != nil:
				return
			case r.IntN(2) == 0 && len(shims) > 0:
				kills["shim"]++
				_ = syscall.Kill(shims[r.IntN(len(shims))], syscall.SIGKILL)
			default:
				kills["server"]++
				if err := s.killAndRestart(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	began := time.Now()
	var ids []string
	r := random(seed, 1)
	for n := range count {
		request, answer := &fleetv1.QueueTaskRequest{Pool: billPool, TaskDescription: billedWork(r), RequestId: fmt.Sprint(n), MaxAttempts: new(int32(attempts))}, &fleetv1.QueueTaskResponse{}
		for err = f.call(r, "QueueTask", request, answer); err != nil; err = f.call(r, "QueueTask", request, answer) {
			require.Empty(t, reasonOf(err), err)
		}
		ids = append(ids, answer.GetTask().GetId())
	}
	f.awaitBudgetExhausted(t, time.Duration(count)*3*time.Second+operationTimeout)
	lasted := time.Since(began)
	stop()
	injector.Wait()
	s.requireServing(t)
	f.awaitBudgetExhausted(t, operationTimeout)

	billed, broken, unread := bill.counts()
	ledger, reserved := f.ledgerSums(t)
	states, budgetWaits := f.statesOf(t, ids)
	t.Logf("%d tasks with %s a day for %s, %v kills: the bill is %s and the ledger says %s; %d requests were broken off, %d responses were not read; %v, held %v",
		count, fleet.MicrosOf(usd), lasted.Round(time.Second), kills, priceOf(billed), ledger, broken, unread, states, budgetWaits)
	require.Zero(t, reserved)
	require.LessOrEqual(t, priceOf(billed), fleet.MicrosOf(usd)+priceOf(agents), "the bill may exceed the budget only by one response for each of the %d agents", agents)
	require.Equal(t, priceOf(billed), ledger)
}

// priceOf returns the price of the responses.
func priceOf(responses int) fleet.Micros { return fleet.Micros(responses) * billCents * 10_000 }

// noonZone returns a time zone in which it is about noon, so that no day begins during a test.
func noonZone(now time.Time) string {
	ahead := 12 - now.UTC().Hour()
	return fmt.Sprintf("Etc/GMT%+d", -ahead) // these names have the opposite sign
}

// billedWork returns a task that makes some requests to the model, a part of them through a subagent.
func billedWork(r *rand.Rand) string {
	steps := func(n int) []string {
		return slices.Repeat([]string{`model: tool create_todo {"description":"work"}`}, n)
	}
	most := 6
	if r.IntN(3) == 0 {
		most = 60 // so that the task needs more than it has reserved
	}
	lines := steps(r.IntN(most))
	if r.IntN(2) == 0 {
		task, _ := json.Marshal(map[string]string{
			"agent": "helper", "task": strings.Join(append(steps(r.IntN(4)), "model: say helped"), "\n"), "expected_output": "help",
		}) // strings can always be encoded
		lines = append(lines, "model: tool transfer_task "+string(task))
	}
	return strings.Join(append(lines, "model: say done"), "\n")
}

// shimsOf returns the pids of the supervisors of runs below the directory.
func shimsOf(dir string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		line, _ := os.ReadFile(path) // the process may have ended by now
		args := bytes.Split(line, []byte{0})
		if len(args) > 2 && string(args[1]) == "shim" && bytes.HasPrefix(args[2], []byte(dir)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// awaitBudgetExhausted waits until no task runs, and all pending tasks wait for the budget.
func (f *fleetUnderLoad) awaitBudgetExhausted(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		callCtx, done := context.WithTimeout(ctx, callTimeout)
		queue, agents := &fleetv1.ShowQueueResponse{}, &fleetv1.ListAgentsResponse{}
		working := false
		list := func() error { // before and after the queue, because a task that ends lets others start
			err := overGRPC(callCtx, f.servers[0], "ListAgents", &fleetv1.ListAgentsRequest{}, agents)
			working = working || slices.ContainsFunc(agents.GetAgents(), func(a *fleetv1.AgentSummary) bool { return a.GetStatus() == fleetv1.Agent_busy })
			return err
		}
		err := list()
		if err == nil {
			err = overGRPC(callCtx, f.servers[0], "ShowQueue", &fleetv1.ShowQueueRequest{}, queue)
		}
		if err == nil {
			err = list()
		}
		done()
		held := int32(0)
		for _, r := range queue.GetReasons() {
			if r.GetReason() == string(fleet.WaitBudget) {
				held += r.GetTasks()
			}
		}
		if err == nil && !working && held == queue.GetPending() {
			return
		}
		pause(ctx, 200*time.Millisecond)
		require.NoError(t, ctx.Err(), "%s: tasks still run: %v, %v, %v", f.name, queue, agents, err)
	}
}

// ledgerSums returns the sums of the entries in the ledger of the budget billBudget. It fails the test if the budget itself says
// something else.
func (f *fleetUnderLoad) ledgerSums(t *testing.T) (spent, reserved fleet.Micros) {
	t.Helper()
	for cursor := ""; ; {
		answer := mustCall(t, f.servers[0], fleetv1.FleetServiceClient.ShowBudget, &fleetv1.ShowBudgetRequest{Name: billBudget, All: true, Cursor: cursor, Limit: new(int32(100))})
		for _, e := range answer.GetEntries() {
			spent, reserved = spent+fleet.MicrosOf(e.GetSpentUsd()), reserved+fleet.MicrosOf(e.GetReservedUsd())
		}
		if answer.NextCursor == nil {
			require.Equal(t, fleet.MicrosOf(answer.GetBudget().GetSpentUsd()), spent)
			return spent, reserved
		}
		cursor = answer.GetNextCursor()
	}
}

// statesOf returns how many tasks have each status and reason code, and how many wait for the budget, by its name and the time until
// which they wait. It fails the test if a task still runs, or does not wait for the budget.
func (f *fleetUnderLoad) statesOf(t *testing.T, ids []string) (states, budgetWaits map[string]int) {
	t.Helper()
	states, budgetWaits = map[string]int{}, map[string]int{}
	for _, id := range ids {
		task := mustCall(t, f.servers[0], fleetv1.FleetServiceClient.ShowTask, &fleetv1.ShowTaskRequest{TaskId: id}).GetTask()
		states[task.GetStatus().String()+" "+task.GetReasonCode()]++
		if task.GetStatus() != fleetv1.Task_pending {
			require.NotEqual(t, fleetv1.Task_running, task.GetStatus(), task)
			continue
		}
		waits := task.GetQueue().GetWaits()
		i := slices.IndexFunc(waits, func(w *fleetv1.Wait) bool { return w.GetReason() == string(fleet.WaitBudget) })
		require.GreaterOrEqual(t, i, 0, "the task waits for something else: %v", waits)
		w := waits[i]
		require.Equal(t, billBudget, w.GetSubject())
		require.NotNil(t, w.GetUntil(), w)
		require.Contains(t, w.GetText(), w.GetUntil().AsTime().UTC().Format("2006-01-02 15:04"))
		budgetWaits[w.GetSubject()+" "+w.GetUntil().AsTime().Format(time.RFC3339)]++
	}
	return states, budgetWaits
}
