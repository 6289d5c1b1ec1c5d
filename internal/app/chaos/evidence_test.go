package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// evidence has the data that the checks use at the end of a test: the content of the store, the events that watchers received,
// and the traces of runs.
type evidence struct {
	log           []*fleetv1.Event
	tasks         []*fleetv1.Task
	contractTasks []*fleetv1.Task             // the tasks of contracts
	agents        map[string]bool             // the agents that exist
	watched       map[string][]*fleetv1.Event // by watcher
	runs          map[string]int              // how often a task ran, by the task's tag
	overlaps      []string                    // runs that began while another run of the agent was active
	delivered     map[string]int              // how often an agent received a message, by the message's text
	workspaces    map[string]int              // how many workspaces an agent has in the place that all servers share, by the agent's name
	contracts     map[string]contractResult   // by the id of the agent
	limits        fleet.Limits                // of all agents together, since they have one owner

	leaseProblems []string // leases that a server took before they had expired, and writes without a lease
	leaseOwners   int      // how many different owners of leases there were; each process of a server has its own
}

// taskTag matches the tag of a task in its description.
var taskTag = regexp.MustCompile(`t\d{6}`)

// collectEvidence collects the evidence for the checks, after callers and faults have ended.
func (f *fleetUnderLoad) collectEvidence(t *testing.T) *evidence {
	ctx, cancel := context.WithTimeout(t.Context(), operationTimeout)
	defer cancel()
	e := &evidence{limits: f.limits, agents: map[string]bool{}, watched: map[string][]*fleetv1.Event{}, runs: map[string]int{}, delivered: map[string]int{}, workspaces: map[string]int{}}
	var err error
	for caughtUp := false; !caughtUp; { // deletions of agents may still add events
		e.log, err = f.readLog(ctx)
		require.NoError(t, err)
		require.NotEmpty(t, e.log)
		if caughtUp = f.awaitWatchers(ctx, e.log[len(e.log)-1].GetCursor()); ctx.Err() != nil {
			f.history.addProblem("not all watchers have received the last event")
			break
		}
	}
	for _, s := range f.servers {
		for _, problem := range s.internalErrors() {
			f.history.addProblem("%s", problem)
		}
	}
	for _, w := range f.watchers {
		e.watched[w.name] = w.received()
	}
	e.tasks, e.contractTasks = f.allTasks(ctx, t, fleetv1.ListTasksRequest_fleet), f.allTasks(ctx, t, fleetv1.ListTasksRequest_lifecycle)
	e.contracts = f.contractResults(ctx, t)
	for _, name := range f.allAgents(ctx, t) {
		e.agents[name] = true
	}
	e.addTraces(t, f.tracesDir)
	tags := tagsOf(e.log)
	for _, task := range e.tasks {
		if f.isShared(task.GetAgentName()) {
			e.runs[tags[task.GetId()]] = f.place.RunCount(task.GetId())
			for _, text := range f.place.Messages(task.GetId()) {
				e.delivered[text]++
			}
		}
	}
	for name := range f.history.agents {
		if f.isShared(name) {
			e.workspaces[name] = 0
		}
	}
	for _, w := range f.place.Workspaces() {
		e.workspaces[w.Name]++
	}
	for _, name := range f.agents {
		delete(e.workspaces, name) // the test created these agents before the callers began
	}
	return e
}

// addTraces adds the runs and the overlaps that runs of local agents have written into files of the directory.
func (e *evidence) addTraces(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.runs"))
	require.NoError(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.True(t, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
		for line := range strings.Lines(string(b)) {
			kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if kind == "overlap" {
				e.overlaps = append(e.overlaps, filepath.Base(file)+": "+rest)
				continue
			}
			e.runs[rest]++
		}
	}
}

// allAgents returns the names of all agents that exist.
func (f *fleetUnderLoad) allAgents(ctx context.Context, t *testing.T) (names []string) {
	answer := &fleetv1.ListAgentsResponse{}
	require.NoError(t, overGRPC(ctx, f.servers[0], "ListAgents", &fleetv1.ListAgentsRequest{}, answer))
	for _, a := range answer.GetAgents() {
		names = append(names, a.GetName())
	}
	return names
}

// allTasks returns all tasks of the toolset in the store.
func (f *fleetUnderLoad) allTasks(ctx context.Context, t *testing.T, toolset fleetv1.ListTasksRequest_Toolset) (all []*fleetv1.Task) {
	for cursor := ""; ; {
		answer := &fleetv1.ListTasksResponse{}
		require.NoError(t, overGRPC(ctx, f.servers[0], "ListTasks", &fleetv1.ListTasksRequest{Toolset: toolset, Cursor: cursor, Limit: proto.Int32(100)}, answer))
		all = append(all, answer.GetTasks()...)
		if answer.NextCursor == nil {
			return all
		}
		cursor = answer.GetNextCursor()
	}
}
