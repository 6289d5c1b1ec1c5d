package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/waittest"
)

// BenchmarkStore measures a store with many agents and tasks: the start of a server, lists, and searches.
func BenchmarkStore(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { newLargeStore(b, "").benchmark(b) })
	b.Run("Postgres", func(b *testing.B) {
		pg := startPostgres(b, "shared_buffers=512MB")
		s := newLargeStore(b, pg.URL("postgres"))
		require.NoError(b, pg.Exec(b.Context(), "postgres", `VACUUM ANALYZE`)) // autovacuum would do it later
		s.benchmark(b)
	})
}

// largeStore is the content of a large store: idle agents, and tasks of the last 100 days that have ended.
type largeStore struct {
	*testbed
	agents, tasks int
	words         []string
	random        *rand.Rand // makes the same content, and the same sequence of calls, in every run
}

const (
	storeDays     = 100
	storeProjects = 20
)

func storeOwner(i int) string   { return fmt.Sprintf("owner-%02d", i%100) }
func storeProject(i int) string { return fmt.Sprintf("project-%02d", i%storeProjects) }

// newLargeStore opens the store at the URL, see testbed, and fills it.
func newLargeStore(b *testing.B, url string) *largeStore {
	start := time.Now()
	now := start.UTC().Truncate(time.Second)
	var projects []fake.Project
	for i := range storeProjects {
		projects = append(projects, fake.Project{Project: fleet.Project{Name: storeProject(i), TemplateID: storeProject(i), TemplateName: storeProject(i)}})
	}
	s := &largeStore{testbed: newTestbed(b, url, projects...), agents: fullOrSmall(100_000, 200), tasks: fullOrSmall(1_000_000, 2000), random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // not for secrets
	for range 5000 {
		var word strings.Builder
		for range 2 + s.random.IntN(3) {
			word.WriteByte("bcdfgklmnprstvz"[s.random.IntN(15)])
			word.WriteByte("aeiou"[s.random.IntN(5)])
		}
		s.words = append(s.words, word.String())
	}
	s.insert(b, s.agents, func(tx fleet.Tx, i int) error {
		return s.insertAgent(tx, i, storeOwner(i), storeProject(i), now.Add(-storeDays*24*time.Hour))
	})
	s.insert(b, s.tasks, func(tx fleet.Tx, i int) error {
		agent, at := i%s.agents, now.Add(-time.Duration(s.tasks-i)*(storeDays*24*time.Hour/time.Duration(s.tasks)))
		t := &fleet.Task{
			ID: fmt.Sprintf("%08x-0000-4000-8000-%012d", s.random.Uint32(), i), AgentUID: agentUID(agent), AgentName: agentName(agent), Owner: storeOwner(agent),
			Source: fleet.SourceHuman, Status: fleet.TaskCompleted, Description: s.text(10), Summary: s.text(8), CreatedAt: at, StartedAt: at, EndedAt: at.Add(time.Minute),
			CostUSD: float64(s.random.IntN(100)) / 100, Turns: 3, Usage: fleet.Usage{Model: "stub", InputTokens: 1000, OutputTokens: 100, ToolCalls: 5},
		}
		switch s.random.IntN(50) {
		case 0:
			t.Status, t.Reason = fleet.TaskFailed, "the agent gave no reason"
		case 1:
			t.Status, t.Reason = fleet.TaskStopped, "somebody stopped it"
		}
		return tx.Insert(t)
	})
	b.Logf("filled the store in %s", time.Since(start).Round(time.Second))
	return s
}

// text returns n random words. The first of s.words are frequent, the last ones are rare.
func (s *largeStore) text(n int) string {
	words := make([]string, n)
	for i := range words {
		f := s.random.Float64()
		words[i] = s.words[int(f*f*f*float64(len(s.words)))]
	}
	return strings.Join(words, " ")
}

// benchmark measures a server on the store.
func (s *largeStore) benchmark(b *testing.B) {
	b.Run("start", func(b *testing.B) {
		heap, resident := memoryInUse(), residentMemory(b)
		first, srv := s.start(b) // slower than the others, since the server has to list the place
		cpu := cpuTime(b)
		durations := eachIteration(b, func(int) (seconds float64) {
			srv.stop()
			seconds, srv = s.start(b)
			return seconds
		})
		report(b, first, "first-s", "", 0)
		report(b, quantile(durations, 0.5), "s", "at most", 2)
		report(b, (cpuTime(b)-cpu).Seconds()/float64(len(durations)), "cpu-s", "", 0)
		report(b, (memoryInUse()-heap)/float64(s.agents), "heap-B/agent", "at most", 2048)
		report(b, (residentMemory(b)-resident)/float64(s.agents), "resident-B/agent", "at most", 2048)
	})
	srv := s.serve(b, nil)
	answer, err := srv.ListTasks(b.Context(), &fleetv1.ListTasksRequest{Page: new(int32(2)), PageSize: new(int32(50))})
	require.NoError(b, err)
	randomInt := s.random.IntN
	randomTask := func() *fleetv1.Task { return answer.GetTasks()[randomInt(len(answer.GetTasks()))] }
	client := newHTTPClient(b, srv.HTTPAddr())
	word := func() string {
		words := strings.Fields(randomTask().GetDescription())
		return words[randomInt(len(words))]
	}
	for _, call := range []struct {
		name string
		path func() string
	}{
		{"list_agents/first-page", func() string { return "agents?page_size=20&page=1" }},
		{"list_agents/any-page", func() string { return fmt.Sprint("agents?page_size=20&page=", 1+randomInt(s.agents/20)) }},
		{"list_agents/status", func() string { return "agents?page_size=20&page=2&status=idle" }},
		{"list_agents/project", func() string { return "agents?page_size=20&page=1&project=" + storeProject(randomInt(storeProjects)) }},
		{"list_tasks/first-page", func() string { return "tasks" }},
		{"list_tasks/page-of-the-counted", func() string { return fmt.Sprint("tasks?page=", 1+randomInt(min(500, s.tasks/20))) }},
		{"list_tasks/cursor-to-the-middle", func() string { return fmt.Sprintf("tasks?cursor=%d.%s", s.tasks/2, randomTask().GetId()) }},
		{"list_tasks/page-in-the-middle", func() string { return fmt.Sprint("tasks?page=", s.tasks/2/20) }},
		{"list_tasks/agent", func() string { return "tasks?agent_name=" + agentName(randomInt(s.agents)) }},
		{"list_tasks/rare-status", func() string { return "tasks?status=failed" }},
		{"list_tasks/frequent-status", func() string { return "tasks?status=completed" }},
		{"list_tasks/project-and-status", func() string { return "tasks?status=completed&project=" + storeProject(randomInt(storeProjects)) }},
		{"list_tasks/source", func() string { return "tasks?source=human" }},
		{"list_tasks/word-of-any-frequency", func() string { return "tasks?text=" + word() }},
		{"list_tasks/beginning-of-a-word", func() string { return "tasks?text=" + word()[:3] }},
		{"list_tasks/two-letters", func() string { return "tasks?text=" + word()[:2] }},
		{"list_tasks/two-words", func() string {
			words := strings.Fields(randomTask().GetDescription())
			i := randomInt(len(words) - 1)
			return "tasks?text=" + words[i] + "+" + words[i+1]
		}},
		{"show_agent_task_history", func() string { return "agents/" + agentName(randomInt(s.agents)) + "/tasks" }},
		{"search_fleet/word", func() string { return "search?text=" + word() }},
		{"search_fleet/agent", func() string { return "search?text=" + agentName(randomInt(s.agents)) }},
		{"show_fleet", func() string { return "fleet" }},
		{"show_usage", func() string { return "usage?by=projects" }},
	} {
		compare(b, time.Second/4, row{name: call.name, maxP99Millis: 50, measure: repeat(1, func(int) error {
			var body bytes.Buffer
			path := call.path()
			_, err := client.do(request("/v1/"+path, "", ""), &body)
			if err == nil && !bytes.Contains(body.Bytes(), []byte(`[{"`)) && path != "fleet" {
				err = fmt.Errorf("%s answers without items: %s", path, &body)
			}
			return err
		})})
	}
}

// start starts a server. It returns the seconds until the server was ready and had answered a call.
func (s *largeStore) start(b *testing.B) (seconds float64, srv *server) {
	start := time.Now()
	srv = s.serve(b, nil)
	waittest.Until(b, "readiness gives no signal", func() bool {
		answer, err := http.Get("http://" + srv.HTTPAddr() + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	_, err := srv.ListAgents(b.Context(), &fleetv1.ListAgentsRequest{Limit: new(int32(1))})
	require.NoError(b, err)
	return msSince(start) / 1000, srv
}

// residentMemory returns the resident memory of this process in bytes, after the heap has returned free memory to the system.
func residentMemory(b *testing.B) float64 {
	debug.FreeOSMemory()
	self, err := procfs.Self()
	require.NoError(b, err)
	s, err := self.Stat()
	require.NoError(b, err)
	return float64(s.ResidentMemory())
}
