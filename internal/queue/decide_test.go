package queue

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// anyState draws a fleet with a queue.
func anyState(rt *rapid.T) State {
	agents := map[string]*fleet.AgentView{}
	deps := map[string]fleet.Dependee{}
	coderDown := rapid.Bool().Draw(rt, "down")
	s := State{Now: noon, Pools: anyPools(rt), Detail: Reasons}
	s.Agents = anyAgents(rt)
	for _, a := range s.Agents {
		agents[a.UID] = a
	}
	if rapid.IntRange(0, 9).Draw(rt, "pause") == 0 {
		s.Pause = &fleet.Pause{By: "root"}
	}
	for i := range rapid.IntRange(0, 12).Draw(rt, "tasks") {
		s.Tasks = append(s.Tasks, anyTask(rt, i, deps))
	}
	room := map[string]int{"alice": rapid.IntRange(0, 3).Draw(rt, "room")}
	s.Agent = func(uid string) *fleet.AgentView { return agents[uid] }
	s.Dependee = func(id string) fleet.Dependee { return deps[id] }
	s.PlaceError = func(a *fleet.Agent) error {
		if coderDown && a.Place == "coder" {
			return errors.New("down")
		}
		return nil
	}
	s.UseError = func(*fleet.QueuedTask, *fleet.Agent) error { return nil }
	s.TaskRoom = func(owner string) (int, bool) { n, limited := room[owner]; return n, limited }
	if rapid.IntRange(0, 3).Draw(rt, "project limit") == 0 {
		s.ProjectRoom = map[string]int{"web": rapid.IntRange(0, 3).Draw(rt, "project room")}
	}
	left := map[string]int64{"day": rapid.Int64Range(0, 5).Draw(rt, "day"), "web": rapid.Int64Range(0, 5).Draw(rt, "web")}
	claims := anyClaims(rt, s.Tasks, left)
	s.Claims = func(q *fleet.QueuedTask) []fleet.BudgetClaim { return claims[q.ID] }
	credentialWaits := map[string][]fleet.Wait{}
	for _, q := range s.Tasks {
		if rapid.IntRange(0, 7).Draw(rt, "credential") == 0 {
			credentialWaits[q.ID] = []fleet.Wait{{Reason: fleet.WaitUsageWindow, Until: noon.Add(time.Hour)}}
		}
	}
	s.CredentialWaits = func(q *fleet.QueuedTask) []fleet.Wait { return credentialWaits[q.ID] }
	s.BudgetFits = func(budget string, needed fleet.Amount) bool { return needed.Tokens <= left[budget] }
	return s
}

// anyTask draws task number i. It adds the tasks on which it depends to deps.
func anyTask(rt *rapid.T, i int, deps map[string]fleet.Dependee) *fleet.QueuedTask {
	id := "t" + strconv.Itoa(i)
	q := &fleet.QueuedTask{Task: fleet.Task{
		ID: id, AgentUID: "u" + strconv.Itoa(rapid.IntRange(0, 4).Draw(rt, "of")), Owner: rapid.SampledFrom([]string{"alice", "bob"}).Draw(rt, "owner"),
		Status: fleet.TaskPending, CreatedAt: noon.Add(-time.Duration(12-i) * 20 * time.Second),
	}}
	target := fleet.Target{}
	switch rapid.IntRange(0, 2).Draw(rt, "target") {
	case 0:
		target = fleet.Target{ProjectRole: fleet.ProjectRole{Place: "local", Project: "web", Role: "coder"}}
	case 1:
		target = fleet.Target{Pool: rapid.SampledFrom([]string{"p0", "p1", "none"}).Draw(rt, "target pool"), ProjectRole: fleet.ProjectRole{Project: "web"}}
	}
	if target != (fleet.Target{}) {
		q.AgentUID = ""
	}
	q.Entry = fleet.QueueEntry{Target: target, Priority: rapid.IntRange(-1, 1).Draw(rt, "priority"), By: q.Owner, ExclusiveKey: rapid.SampledFrom([]string{"", "", "k"}).Draw(rt, "key")}
	switch rapid.IntRange(0, 8).Draw(rt, "kind") {
	case 0:
		q.Entry.HeldBy = "alice"
	case 1:
		q.Entry.NotBefore = noon.Add(time.Hour)
	case 2:
		q.Entry.Expires = noon
	case 3:
		dep := "d" + strconv.Itoa(i)
		deps[dep] = fleet.Dependee{
			Status:   rapid.SampledFrom([]fleet.TaskStatus{"", fleet.TaskPending, fleet.TaskCompleted, fleet.TaskFailed}).Draw(rt, "dependency"),
			AgentUID: "u" + strconv.Itoa(rapid.IntRange(0, 6).Draw(rt, "dependency's agent")),
		}
		q.Entry.Dependencies = []fleet.Dependency{{TaskID: dep, AnyEnd: rapid.Bool().Draw(rt, "ended")}}
	case 4:
		q.Status = fleet.TaskRunning
	}
	return q
}

// anyClaims draws what each task claims of the budgets, by id. left is what is left of each budget.
func anyClaims(rt *rapid.T, tasks []*fleet.QueuedTask, left map[string]int64) map[string][]fleet.BudgetClaim {
	claims := map[string][]fleet.BudgetClaim{}
	for _, q := range tasks {
		for _, name := range []string{"day", "web"} {
			if n := rapid.Int64Range(0, 3).Draw(rt, "want"); n > 0 {
				claims[q.ID] = append(claims[q.ID], newClaim(name, n, left[name]))
			}
		}
	}
	return claims
}

func newClaim(budget string, neededTokens, leftTokens int64) fleet.BudgetClaim {
	c := fleet.BudgetClaim{Budget: budget, Needed: fleet.Amount{Tokens: neededTokens}}
	if neededTokens > leftTokens {
		c.Text, c.Until = "too little", noon.Add(time.Hour)
	}
	return c
}

// anyAgents draws agents.
func anyAgents(rt *rapid.T) (agents []*fleet.AgentView) {
	for i := range rapid.IntRange(1, 6).Draw(rt, "agents") {
		uid := "u" + strconv.Itoa(i)
		a := &fleet.AgentView{Agent: fleet.Agent{
			UID: uid, Name: uid, State: fleet.StateRunning, Desired: fleet.DesiredRunning, Place: rapid.SampledFrom([]string{"local", "coder"}).Draw(rt, "place"),
			Owner: rapid.SampledFrom([]string{"alice", "bob"}).Draw(rt, "agent's owner"), Role: rapid.SampledFrom([]string{"coder", "tester"}).Draw(rt, "role"), Project: "web",
			Pool: rapid.SampledFrom([]string{"", "", "p0", "p1", "gone"}).Draw(rt, "pool"), MaxIdle: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "max idle"),
			UpdatedAt: noon.Add(-time.Duration(rapid.IntRange(0, 3).Draw(rt, "idle")) * time.Minute),
		}}
		switch rapid.IntRange(0, 5).Draw(rt, "agent") {
		case 0:
			a.Task = &fleet.Task{ID: "busy-" + uid, AgentUID: uid, Status: fleet.TaskRunning}
		case 1:
			a.State = fleet.StateStopped
		case 2:
			a.State = fleet.StateStarting
		case 3:
			a.Desired = fleet.DesiredDeleted
		}
		agents = append(agents, a)
	}
	return agents
}

// anyPools draws pools.
func anyPools(rt *rapid.T) (pools []*fleet.Pool) {
	for i := range rapid.IntRange(0, 2).Draw(rt, "pools") {
		pools = append(pools, &fleet.Pool{
			Name: "p" + strconv.Itoa(i), Owner: rapid.SampledFrom([]string{"alice", "alice", "bob"}).Draw(rt, "pool's owner"), MinIdle: rapid.IntRange(0, 1).Draw(rt, "min idle"), MaxAgents: rapid.IntRange(1, 3).Draw(rt, "max agents"),
			MaxCreating: rapid.IntRange(1, 2).Draw(rt, "max creating"), MaxIdle: 2 * time.Minute, Reuse: rapid.SampledFrom([]fleet.ReusePolicy{fleet.ReuseFresh, fleet.ReuseSame, fleet.ReuseAny}).Draw(rt, "reuse"),
			Draining: rapid.IntRange(0, 4).Draw(rt, "draining") == 0, Failures: rapid.SampledFrom([]int{0, 0, 3, 10}).Draw(rt, "failures"),
			RetryAt: noon.Add(time.Duration(rapid.IntRange(-1, 1).Draw(rt, "retry")) * time.Minute), ProjectRole: fleet.ProjectRole{Place: "local"},
		})
	}
	return pools
}

// mayRunOn reports whether the task may run on the agent.
func mayRunOn(s State, q *fleet.QueuedTask, a *fleet.AgentView) bool {
	if q.AgentUID != "" {
		return a.UID == q.AgentUID
	}
	for _, p := range s.Pools {
		if p.Name != q.Entry.Target.Pool || p.Owner != q.Owner || p.Reuse != fleet.ReuseSame {
			continue
		}
		for _, dep := range q.Entry.Dependencies {
			if required := s.Agent(s.Dependee(dep.TaskID).AgentUID); required != nil && required.Pool == p.Name && required.Owner == p.Owner && required.Desired != fleet.DesiredDeleted {
				return a == required
			}
		}
	}
	t := q.Entry.Target
	if t.Pool != "" {
		return a.Pool == t.Pool && a.Owner == q.Owner && slices.ContainsFunc(s.Pools, func(p *fleet.Pool) bool { return p.Name == t.Pool && p.Owner == q.Owner })
	}
	return a.Pool == "" && a.MaxIdle == 0 && a.Owner == q.Owner && t.Matches(&a.Agent)
}

// decideSlowly is a simple form of Decide, which decides only what starts. As long as another task can start, it starts the first
// such task on the agent that was used last. It returns the starts as "TASK on AGENT".
func decideSlowly(s State) (started []string) {
	var running []*fleet.QueuedTask
	for _, q := range s.Tasks {
		if q.Status == fleet.TaskRunning {
			running = append(running, q)
		}
	}
	firstStarted := len(running) // index in running of the first task that starts now
	used := map[string]bool{}    // agents on which a task starts now, by uid
	agentFor := func(q *fleet.QueuedTask) (best *fleet.AgentView) {
		for _, a := range s.Agents {
			better := best == nil || a.UpdatedAt.After(best.UpdatedAt) || a.UpdatedAt.Equal(best.UpdatedAt) && a.UID < best.UID
			if mayRunOn(s, q, a) && a.Status() == fleet.StatusIdle && !used[a.UID] && better {
				best = a
			}
		}
		if best != nil && s.PlaceError(&best.Agent) != nil {
			return nil
		}
		return best
	}
	canStart := func(q *fleet.QueuedTask) bool {
		e := q.Entry
		if s.Pause != nil || q.Status != fleet.TaskPending || agentFor(q) == nil || e.HeldBy != "" || e.NotBefore.After(s.Now) || !e.Expires.IsZero() && !e.Expires.After(s.Now) {
			return false
		}
		for _, dep := range e.Dependencies {
			if status := s.Dependee(dep.TaskID).Status; status != fleet.TaskCompleted && (!dep.AnyEnd || !status.Ended()) {
				return false
			}
		}
		if len(s.CredentialWaits(q)) > 0 {
			return false
		}
		startedOfOwner := 0
		for i, r := range running {
			if r == q || e.ExclusiveKey != "" && r.Entry.ExclusiveKey == e.ExclusiveKey {
				return false
			}
			if i >= firstStarted && r.Owner == q.Owner {
				startedOfOwner++
			}
		}
		for _, c := range s.Claims(q) {
			all := c.Needed
			for _, r := range running[firstStarted:] {
				for _, o := range s.Claims(r) {
					if o.Budget == c.Budget {
						all = all.Plus(o.Needed)
					}
				}
			}
			if !s.BudgetFits(c.Budget, all) {
				return false
			}
		}
		if room, limited := s.ProjectRoom["web"]; limited && len(running)-firstStarted >= room { // all tasks are of this project
			return false
		}
		free, limited := s.TaskRoom(q.Owner)
		return !limited || startedOfOwner < free
	}
	ordered := order(s.Tasks, s.Now, fleet.DefaultAgeStep)
	for {
		i := slices.IndexFunc(ordered, canStart)
		if i < 0 {
			return started
		}
		a := agentFor(ordered[i])
		used[a.UID] = true
		running = append(running, ordered[i])
		started = append(started, ordered[i].ID+" on "+a.UID)
	}
}

// TestDecide compares the decisions of Decide and decideSlowly. It checks that each pending task starts, waits for reasons, or can
// never start, and that the decision does not depend on its detail.
func TestDecide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := anyState(rt)
		d := Decide(s)
		var started []string
		for _, x := range d.Start {
			started = append(started, x.Task.ID+" on "+x.Agent.UID)
		}
		require.Equal(rt, decideSlowly(s), started)
		checkPools(rt, s, d)
		s.Detail = NoWaits
		withoutWaits := Decide(s)
		require.Equal(rt, []any{d.Start, d.End, d.Create, d.Retire}, []any{withoutWaits.Start, withoutWaits.End, withoutWaits.Create, withoutWaits.Retire})
		for _, q := range d.Order {
			_, ends := d.End[q.ID]
			outcomes := 0
			for _, applies := range []bool{slices.ContainsFunc(d.Start, func(x Start) bool { return x.Task == q }), len(d.Waits[q.ID]) > 0, ends} {
				if applies {
					outcomes++
				}
			}
			require.Equal(rt, 1, outcomes, q.ID)
		}
	})
}

// checkPools checks that the decision creates and retires agents as each pool requires.
func checkPools(rt *rapid.T, s State, d Decision) {
	taken := map[string]bool{} // agents on which a task starts, by uid
	for _, x := range d.Start {
		taken[x.Agent.UID] = true
	}
	for _, p := range s.Pools {
		all, creating, free := 0, 0, 0
		for _, a := range s.Agents {
			if a.Pool != p.Name || a.Owner != p.Owner || a.Desired == fleet.DesiredDeleted {
				continue
			}
			all++
			if a.State == fleet.StateStarting {
				creating++
			} else if a.Status() == fleet.StatusIdle && !taken[a.UID] {
				free++
			}
		}
		n := d.Create[p]
		if n > 0 {
			require.LessOrEqual(rt, all+n, p.MaxAgents)
			require.LessOrEqual(rt, creating+n, p.MaxCreating)
			require.False(rt, p.Paused() || p.RetryAt.After(s.Now))
		}
		waiting := 0 // tasks that wait only for an agent
		for _, q := range d.Order {
			w := d.Waits[q.ID]
			if q.Entry.Target.Pool == p.Name && q.Owner == p.Owner && len(w) == 1 && (w[0].Reason == fleet.WaitProvisioning || w[0].Reason == fleet.WaitPoolFull) {
				waiting++
			}
		}
		creatable := min(p.MaxAgents-all, p.MaxCreating-creating)
		if !p.Paused() && !p.RetryAt.After(s.Now) && s.PlaceError(&fleet.Agent{Place: p.Place}) == nil && creatable > 0 && waiting > free+creating {
			require.Positive(rt, n, "tasks wait although the pool could create agents")
		}
		idleLeft := free
		for _, a := range d.Retire {
			if a.Pool == p.Name && a.Owner == p.Owner && a.Status() == fleet.StatusIdle {
				idleLeft--
			}
		}
		if !p.Draining {
			require.GreaterOrEqual(rt, idleLeft, min(free, p.MinIdle))
		}
	}
	for _, a := range d.Retire {
		require.True(rt, a.Task == nil && !taken[a.UID] && a.Desired != fleet.DesiredDeleted && (a.Pool != "" || a.MaxIdle > 0))
		for _, q := range d.Order {
			require.NotEqual(rt, a.UID, q.AgentUID, "a task waits for the agent")
		}
	}
}

// TestOrder checks that a task that has waited long enough precedes tasks of any priority, and that principals take turns.
func TestOrder(t *testing.T) {
	t.Parallel()
	task := func(id, by string, priority int, age time.Duration) *fleet.QueuedTask {
		return &fleet.QueuedTask{
			Task:  fleet.Task{ID: id, Status: fleet.TaskPending, CreatedAt: noon.Add(-age)},
			Entry: fleet.QueueEntry{Priority: priority, By: by},
		}
	}
	var ids []string
	for _, q := range order([]*fleet.QueuedTask{
		task("old", "alice", -100, 201*time.Minute), task("a1", "alice", 0, 30*time.Second), task("a2", "alice", 0, 20*time.Second),
		task("a3", "alice", 0, 10*time.Second), task("b1", "bob", 0, 5*time.Second), task("high", "bob", 100, time.Second),
	}, noon, fleet.DefaultAgeStep) {
		ids = append(ids, q.ID)
	}
	require.Equal(t, []string{"old", "high", "a1", "b1", "a2", "a3"}, ids)
}

// BenchmarkDecide measures the decision for 10,000 tasks of 1,000 agents.
func BenchmarkDecide(b *testing.B) {
	s := State{Now: noon}
	agents := map[string]*fleet.AgentView{}
	for i := range 1000 {
		uid := "u" + strconv.Itoa(i)
		agents[uid] = &fleet.AgentView{Agent: fleet.Agent{UID: uid, Name: uid, State: fleet.StateRunning, Desired: fleet.DesiredRunning}}
		if i%2 == 0 {
			agents[uid].Task = &fleet.Task{ID: "busy", Description: "work"}
		}
	}
	for i := range 10_000 {
		s.Tasks = append(s.Tasks, &fleet.QueuedTask{
			Task:  fleet.Task{ID: "t" + strconv.Itoa(i), AgentUID: "u" + strconv.Itoa(i%1000), Owner: "o" + strconv.Itoa(i%7), Status: fleet.TaskPending, CreatedAt: noon.Add(time.Duration(i-10_000) * time.Second), Description: "work"},
			Entry: fleet.QueueEntry{Priority: i % 5, By: "o" + strconv.Itoa(i%7)},
		})
	}
	for _, a := range agents {
		s.Agents = append(s.Agents, a)
	}
	s.Agent = func(uid string) *fleet.AgentView { return agents[uid] }
	s.PlaceError, s.UseError = func(*fleet.Agent) error { return nil }, func(*fleet.QueuedTask, *fleet.Agent) error { return nil }
	s.TaskRoom = func(string) (int, bool) { return 0, false }
	s.Claims = func(*fleet.QueuedTask) []fleet.BudgetClaim { return nil }
	s.CredentialWaits = func(*fleet.QueuedTask) []fleet.Wait { return nil }
	for name, detail := range map[string]Detail{"no waits": NoWaits, "reasons": Reasons} {
		b.Run(name, func(b *testing.B) {
			s.Detail = detail
			for b.Loop() {
				Decide(s)
			}
		})
	}
}

// TestFanOutSpreads checks that a task of a fan-out does not start on an agent that has worked on another task of the fan-out.
func TestFanOutSpreads(t *testing.T) {
	t.Parallel()
	second := &fleet.QueuedTask{Task: fleet.Task{ID: "second"}, Entry: fleet.QueueEntry{FanOut: []string{"first", "second"}}}
	decide := func(uids ...string) (d Decision, created int) {
		var agents []*fleet.AgentView
		for _, uid := range uids {
			agents = append(agents, &fleet.AgentView{Agent: fleet.Agent{UID: uid}})
		}
		s := poolState(fleet.ReuseAny, map[string]fleet.Dependee{"first": {Status: fleet.TaskCompleted, AgentUID: "used"}}, agents, second)
		s.Pools[0].MinIdle = 1
		d = Decide(s)
		return d, d.Create[s.Pools[0]]
	}
	d, created := decide("used")
	require.Empty(t, d.Start)
	require.Equal(t, 1, created)
	require.Equal(t, fleet.WaitProvisioning, d.Waits["second"][0].Reason)
	d, created = decide("used", "other")
	require.Len(t, d.Start, 1)
	require.Equal(t, second, d.Start[0].Task)
	require.Equal(t, "other", d.Start[0].Agent.UID)
	require.Zero(t, created)
}

// poolState returns a state with the pool "web" of alice, whose agents and tasks are these, and without limits.
func poolState(reuse fleet.ReusePolicy, deps map[string]fleet.Dependee, agents []*fleet.AgentView, tasks ...*fleet.QueuedTask) State {
	for _, q := range tasks {
		q.Owner, q.Status, q.CreatedAt = "alice", fleet.TaskPending, noon
		q.Entry.Target, q.Entry.By = fleet.Target{Pool: "web"}, "alice"
	}
	for _, a := range agents {
		a.Name, a.Owner, a.Pool, a.State, a.Desired = a.UID, "alice", "web", fleet.StateRunning, fleet.DesiredRunning
	}
	return State{
		Now: noon, Detail: Reasons, Tasks: tasks, Agents: agents,
		Pools: []*fleet.Pool{{Name: "web", Owner: "alice", MaxAgents: 2, MaxCreating: 2, MaxIdle: time.Minute, Reuse: reuse}},
		Agent: func(uid string) *fleet.AgentView {
			if i := slices.IndexFunc(agents, func(a *fleet.AgentView) bool { return a.UID == uid }); i >= 0 {
				return agents[i]
			}
			return nil
		},
		Dependee:        func(id string) fleet.Dependee { return deps[id] },
		PlaceError:      func(*fleet.Agent) error { return nil },
		UseError:        func(*fleet.QueuedTask, *fleet.Agent) error { return nil },
		TaskRoom:        func(string) (int, bool) { return 0, false },
		CredentialWaits: func(*fleet.QueuedTask) []fleet.Wait { return nil },
		Claims:          func(*fleet.QueuedTask) []fleet.BudgetClaim { return nil },
		BudgetFits:      func(string, fleet.Amount) bool { return true },
	}
}

// TestOneTaskAgentIsReserved checks that an agent for one task takes no other task while its task is pending again.
func TestOneTaskAgentIsReserved(t *testing.T) {
	t.Parallel()
	agent := &fleet.AgentView{Agent: fleet.Agent{UID: "used", OneTask: true, UpdatedAt: noon.Add(-time.Hour)}}
	retried := &fleet.QueuedTask{Task: fleet.Task{ID: "again", AgentUID: "used", Try: 1}, Entry: fleet.QueueEntry{RetryAt: noon.Add(time.Hour), Attempts: []fleet.Attempt{{At: noon}}}}
	other := &fleet.QueuedTask{Task: fleet.Task{ID: "other"}, Entry: fleet.QueueEntry{Priority: 1}}
	s := poolState(fleet.ReuseFresh, nil, []*fleet.AgentView{agent}, retried, other)
	d := Decide(s)
	require.Empty(t, d.Start)
	require.Empty(t, d.Retire)
	require.Equal(t, 1, d.Create[s.Pools[0]])
	require.Equal(t, fleet.WaitProvisioning, d.Waits["other"][0].Reason)
	s.Pools[0].MaxAgents = 1
	d = Decide(s)
	require.Empty(t, d.Create)
	require.Equal(t, fleet.WaitPoolFull, d.Waits["other"][0].Reason)
	retried.Entry.RetryAt = noon
	d = Decide(s)
	require.Equal(t, []Start{{retried, agent}}, d.Start)
}

// TestRequiredAgentIsNotRetired checks that an idle agent stays if a waiting task must start on it, because it depends on a task of the
// agent. Without such a task, the agent is deleted.
func TestRequiredAgentIsNotRetired(t *testing.T) {
	t.Parallel()
	first, second := &fleet.AgentView{Agent: fleet.Agent{UID: "first", UpdatedAt: noon.Add(-time.Hour)}}, &fleet.AgentView{Agent: fleet.Agent{UID: "second"}, Task: &fleet.Task{ID: "long"}}
	deps := map[string]fleet.Dependee{"short": {Status: fleet.TaskCompleted, AgentUID: "first"}, "long": {Status: fleet.TaskRunning, AgentUID: "second"}}
	last := &fleet.QueuedTask{Task: fleet.Task{ID: "last"}, Entry: fleet.QueueEntry{Dependencies: []fleet.Dependency{{TaskID: "short"}, {TaskID: "long"}}}}
	agents := []*fleet.AgentView{first, second}
	require.Empty(t, Decide(poolState(fleet.ReuseSame, deps, agents, last)).Retire)
	require.Equal(t, agents[:1], Decide(poolState(fleet.ReuseAny, deps, agents, last)).Retire)
	require.Equal(t, agents[:1], Decide(poolState(fleet.ReuseSame, deps, agents)).Retire)
}
