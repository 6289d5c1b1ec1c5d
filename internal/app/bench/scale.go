package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/store/postgres"
	"fleet/internal/store/sqlite"
)

// scale measures a store with many agents and tasks, on SQLite and on Postgres: lists, searches, and the start of a
// server.
func (r *report) scale(ctx context.Context, tasks int, dir string) {
	if dir == "" {
		temp := must(os.MkdirTemp("", "fleet-bench-"))
		defer func() { check(os.RemoveAll(temp)) }()
		dir = temp
	}
	dir = filepath.Join(dir, "data") // a directory with strict permissions, because a server refuses a data directory that other users can read
	check(os.MkdirAll(dir, 0o700))
	s := newStock(max(1, tasks/10), tasks)
	path := filepath.Join(dir, "fleet.db")
	if _, err := os.Stat(path); err != nil {
		begun := time.Now()
		check(s.fill(ctx, path))
		fmt.Fprintf(r.out, "The store was filled in %s.\n", time.Since(begun).Round(time.Second))
	}
	if r.wants("SQLite") {
		r.scaleOn(ctx, s, "SQLite", &testbed{data: dir})
	}
	if r.startDatabase == nil || !r.wants("Postgres") {
		return
	}
	pg, err := r.startDatabase()
	if err != nil {
		fmt.Fprintf(r.out, "\nPostgres is left out: %v.\n", err)
		return
	}
	defer func() { check(pg.Stop()) }()
	begun := time.Now()
	from := must(sqlite.Open(ctx, path, sqlite.Config{}))
	check(from.Export(ctx, func(rows func(string) (*sql.Rows, error)) error {
		_, err := postgres.Import(ctx, pg.URL("postgres"), nil, rows)
		return err
	}))
	check(from.Close())
	check(pg.Exec(ctx, "postgres", `VACUUM ANALYZE`)) // autovacuum would do it later
	fmt.Fprintf(r.out, "\nIt was imported into Postgres in %s.\n", time.Since(begun).Round(time.Second))
	r.database = pg
	defer func() { r.database = nil }()
	r.scaleOn(ctx, s, "Postgres", &testbed{data: must(os.MkdirTemp(dir, "replica-")), url: pg.URL("postgres")})
}

// wants reports whether rows of the store can match -only, which may begin with the name of a store.
func (r *report) wants(store string) bool {
	other := map[string]string{"SQLite": "Postgres", "Postgres": "SQLite"}[store]
	return !strings.HasPrefix(r.only.String(), other)
}

// scaleOn measures a server on the testbed's store, which has the stock. It halts the testbed at the end.
func (r *report) scaleOn(ctx context.Context, s *stock, store string, t *testbed) {
	t.stop = func() error { return nil }
	t.world = fake.New(fake.Config{Projects: s.projects()})
	for i := range s.agents {
		a := s.agent(i)
		t.world.AddWorkspace(fleet.Workspace{ID: a.WorkspaceID, AgentUID: a.UID, Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Location: a.Location, CreatedAt: a.CreatedAt})
	}
	defer func() {
		check(t.halt())
		t.world.Destroy()
	}()
	heap, resident := memory(), rss()
	starts, cpu := []float64{}, []float64{}
	for i := range 2 { // the first start is slower, since the server has to list the place
		if i > 0 {
			check(t.halt())
		}
		begun, used := time.Now(), must(cpuTime(0))
		check(t.serve(nil))
		for !ready(t.server.HTTPAddr()) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		must(t.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{Limit: new(int32(1))}))
		starts, cpu = append(starts, time.Since(begun).Seconds()), append(cpu, (must(cpuTime(0))-used).Seconds())
	}
	fmt.Fprintf(r.out, "\nA server on %s with %d agents and %d tasks. It was ready and listed agents after %.2f s (%.2f s of CPU), and after %.2f s (%.2f s) at its second start.\n",
		store, s.agents, s.tasks, starts[0], cpu[0], starts[1], cpu[1])
	r.goal(store+": second start, s", "at most", 2, starts[1])
	r.goal(store+": heap of an idle agent, bytes", "at most", 2048, (memory()-heap)/float64(s.agents))
	r.goal(store+": resident memory of an idle agent, bytes", "at most", 2048, (rss()-resident)/float64(s.agents))
	r.measure(ctx, "calls on "+store, 1, s.calls(ctx, store, t.fleet)...)
}

// halt stops the server and keeps its data.
func (t *testbed) halt() error {
	if t.conn == nil {
		return t.stop()
	}
	return errors.Join(t.conn.Close(), t.stop())
}

// ready reports whether the server's /readyz returns 200.
func ready(addr string) bool {
	answer, err := http.Get("http://" + addr + "/readyz") //nolint:noctx // the server in this process
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode == http.StatusOK
}

// rss returns the resident memory of this process in bytes, after the heap has returned free memory to the system.
func rss() float64 {
	debug.FreeOSMemory()
	var size, resident float64
	must(fmt.Sscan(string(must(os.ReadFile("/proc/self/statm"))), &size, &resident))
	return resident * float64(os.Getpagesize())
}

// projects returns the projects of the stock's agents.
func (s *stock) projects() (projects []fake.Project) {
	for i := range stockProjects {
		projects = append(projects, fake.Project{Project: fleet.Project{Name: stockProject(i), TemplateID: stockProject(i), TemplateName: stockProject(i)}})
	}
	return projects
}

// calls returns a row for each list and search.
func (s *stock) calls(ctx context.Context, store string, client fleetv1.FleetServiceClient) (rows []*row) {
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same calls in every run
	add := func(name string, call func() (int, error)) {
		rows = append(rows, &row{name: store + ": " + name, p99: 50, call: func(int) error {
			n, err := call()
			if err == nil && n == 0 {
				err = errors.New("the answer is empty")
			}
			return err
		}})
	}
	agents := func(name string, request func() *fleetv1.ListAgentsRequest) {
		add("list_agents, "+name, func() (int, error) {
			answer, err := client.ListAgents(ctx, request())
			return len(answer.GetAgents()), err
		})
	}
	const size = 20
	agents("first page", func() *fleetv1.ListAgentsRequest {
		return &fleetv1.ListAgentsRequest{Page: new(int32(1)), PageSize: new(int32(size))}
	})
	agents("any page", func() *fleetv1.ListAgentsRequest {
		return &fleetv1.ListAgentsRequest{Page: new(1 + random.Int32N(int32((s.agents+size-1)/size))), PageSize: new(int32(size))} //nolint:gosec // small
	})
	agents("status", func() *fleetv1.ListAgentsRequest {
		return &fleetv1.ListAgentsRequest{Status: fleetv1.Agent_idle, Page: new(int32(2)), PageSize: new(int32(size))}
	})
	agents("project", func() *fleetv1.ListAgentsRequest {
		return &fleetv1.ListAgentsRequest{Project: stockProject(random.IntN(min(stockProjects, s.agents))), Page: new(int32(1)), PageSize: new(int32(size))}
	})
	tasks := func(name string, request func() *fleetv1.ListTasksRequest) {
		add("list_tasks, "+name, func() (int, error) {
			answer, err := client.ListTasks(ctx, request())
			return len(answer.GetTasks()), err
		})
	}
	tasks("first page", func() *fleetv1.ListTasksRequest { return &fleetv1.ListTasksRequest{} })
	tasks("page of the counted", func() *fleetv1.ListTasksRequest {
		return &fleetv1.ListTasksRequest{Page: new(1 + random.Int32N(int32(min(500, (s.tasks+size-1)/size))))} //nolint:gosec // small
	})
	some := must(client.ListTasks(ctx, &fleetv1.ListTasksRequest{Page: new(int32(2)), PageSize: new(int32(50))})).GetTasks()
	tasks("cursor to the middle", func() *fleetv1.ListTasksRequest {
		return &fleetv1.ListTasksRequest{Cursor: fmt.Sprintf("%d.%s", s.tasks/2, some[random.IntN(len(some))].GetId())}
	})
	tasks("page in the middle", func() *fleetv1.ListTasksRequest {
		return &fleetv1.ListTasksRequest{Page: new(int32(max(1, s.tasks/2/size)))}
	}) //nolint:gosec // small
	tasks("agent", func() *fleetv1.ListTasksRequest {
		return &fleetv1.ListTasksRequest{AgentName: stockName(random.IntN(s.agents))}
	})
	tasks("status that is rare", func() *fleetv1.ListTasksRequest { return &fleetv1.ListTasksRequest{Status: fleetv1.Task_failed} })
	tasks("status that is frequent", func() *fleetv1.ListTasksRequest { return &fleetv1.ListTasksRequest{Status: fleetv1.Task_completed} })
	tasks("project and status", func() *fleetv1.ListTasksRequest {
		return &fleetv1.ListTasksRequest{Project: stockProject(random.IntN(min(stockProjects, s.agents))), Status: fleetv1.Task_completed}
	})
	tasks("source", func() *fleetv1.ListTasksRequest { return &fleetv1.ListTasksRequest{Source: fleetv1.Task_human} })
	tasks("word of any frequency", func() *fleetv1.ListTasksRequest { return &fleetv1.ListTasksRequest{Text: s.text(1)} })
	tasks("beginning of a word", func() *fleetv1.ListTasksRequest { return &fleetv1.ListTasksRequest{Text: s.text(1)[:3]} })
	tasks("two letters", func() *fleetv1.ListTasksRequest { return &fleetv1.ListTasksRequest{Text: s.text(1)[:2]} })
	tasks("two words", func() *fleetv1.ListTasksRequest {
		words := strings.Fields(some[random.IntN(len(some))].GetDescription())
		i := random.IntN(len(words) - 1)
		return &fleetv1.ListTasksRequest{Text: words[i] + " " + words[i+1]}
	})
	add("show_agent_task_history", func() (int, error) {
		answer, err := client.ShowAgentTaskHistory(ctx, &fleetv1.ShowAgentTaskHistoryRequest{AgentName: stockName(random.IntN(s.agents))})
		return len(answer.GetTasks()), err
	})
	add("search_fleet", func() (int, error) {
		answer, err := client.SearchFleet(ctx, &fleetv1.SearchFleetRequest{Text: s.text(1)})
		return len(answer.GetItems()), err
	})
	add("search_fleet for an agent", func() (int, error) {
		answer, err := client.SearchFleet(ctx, &fleetv1.SearchFleetRequest{Text: stockName(random.IntN(s.agents))})
		return len(answer.GetItems()), err
	})
	add("show_fleet", func() (int, error) {
		answer, err := client.ShowFleet(ctx, &fleetv1.ShowFleetRequest{})
		return int(answer.GetAgents()), err
	})
	add("show_usage by project", func() (int, error) {
		answer, err := client.ShowUsage(ctx, &fleetv1.ShowUsageRequest{By: fleetv1.ShowUsageRequest_projects})
		return len(answer.GetRows()), err
	})
	return rows
}
