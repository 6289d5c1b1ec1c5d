package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// landingCheck fails if two files in the directory keys have the same line. Agents can write such files because they do not
// know of each other. It takes a different time in each run.
const landingCheck = `sleep 0.$(($$ % 3)); test -z "$(cat keys/* | sort | uniq -d)"`

// TestChaosLanding lands the work of agents in a branch while the server is killed. Some of them change the same lines, and some change
// different files so that a check fails when both have landed. Whatever happens, each commit of the branch must pass the check, all work
// that can be combined must land, and no commit may be lost. With CHAOS, 30 agents work, and the server is killed 100 times.
func TestChaosLanding(t *testing.T) {
	agents, kills := 8, 5
	if os.Getenv("CHAOS") != "" {
		agents, kills = 30, 100
	}
	dir := t.TempDir()
	repo := newLandingRepository(t, dir, 10*agents)

	f := newFleet(t, "landing", fleet.Limits{Agents: 1000, RunningTasks: 1000})
	s := f.addServer(t, "landing", filepath.Join(dir, "data"))
	s.repository = repo
	f.start(t)
	r := random(20261128, 0)
	var ids []string
	for n := range agents {
		name := fmt.Sprintf("agent-%d", n)
		line, key := 10*n+1, n
		switch n % 3 {
		case 1:
			line = 10*(n-1) + 1 // as the agent before
		case 2:
			key = n - 2
		}
		work := fmt.Sprintf("sed -i '%ds/.*/%s/' lines; echo key-%d >keys/%s", line, name, key, name)
		if r.IntN(2) == 0 { // otherwise the work is not committed
			work += "; git add -A; git commit -qm " + name
		}
		ids = append(ids, startWork(t, s, name, "repo", work))
	}
	awaitWork(t, s, ids)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	killed := 0
	var killer sync.WaitGroup
	killer.Go(func() {
		for killed < kills && ctx.Err() == nil {
			pause(ctx, between(r, 200*time.Millisecond, 900*time.Millisecond))
			if err := s.killAndRestart(); err != nil {
				t.Error(err)
				return
			}
			killed++
		}
	})
	began := time.Now()
	callerRandom := random(20261128, 1)
	shuffled := slices.Clone(ids)
	callerRandom.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	f.land(t, callerRandom, shuffled)
	landings := f.awaitLandings(t, callerRandom, ids)
	lasted := time.Since(began)
	killer.Wait()
	stop()

	states := requireLandings(t, repo, landings)
	t.Logf("%d agents, %d kills: all was decided after %s: %v", agents, killed, lasted.Round(time.Second), states)
	require.Contains(t, states, "landed")
	require.Contains(t, states, "conflict")
	require.Contains(t, states, "changes_requested")
}

// newLandingRepository creates a repository with landingCheck and a file of different lines, and returns its path.
func newLandingRepository(t *testing.T, dir string, lineCount int) string {
	t.Helper()
	repo := filepath.Join(dir, "repo")
	git(t, "", "init", "-q", "-b", "main", repo)
	git(t, repo, "config", "user.name", "ada")
	git(t, repo, "config", "user.email", "ada@example.com")
	require.NoError(t, os.WriteFile(filepath.Join(repo, "check.sh"), []byte(landingCheck), 0o600))
	var lines strings.Builder
	for n := range lineCount {
		fmt.Fprintln(&lines, "line", n) // all different, so that git always finds the same lines
	}
	require.NoError(t, os.WriteFile(filepath.Join(repo, "lines"), []byte(lines.String()), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(repo, "keys"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(repo, "keys", "first"), []byte("first\n"), 0o600))
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-qm", "first")
	return repo
}

// requireLandings checks that the branch has one commit for each task that has landed, and that each commit passes the check. Work
// that has not landed must be kept, and it must be impossible to combine it with the branch. It returns the number of tasks by the
// state of their landing.
func requireLandings(t *testing.T, repo string, landings map[string]*fleetv1.Landing) map[string]int {
	t.Helper()
	taskByCommit := map[string]string{}
	states := map[string]int{}
	for id, l := range landings {
		states[l.GetState().String()]++
		require.Contains(t, git(t, repo, "for-each-ref", "--contains", l.GetHeadSha()), "refs/", "the work of %s must be reachable", id)
		if l.GetState() == fleetv1.Landing_landed {
			require.Empty(t, taskByCommit[l.GetLandedSha()], "two tasks must not land with one commit")
			taskByCommit[l.GetLandedSha()] = id
		}
	}
	commits := strings.Fields(git(t, repo, "rev-list", "main", "^"+git(t, repo, "rev-list", "--max-parents=0", "main")))
	require.Len(t, commits, len(taskByCommit), "each task must land once")
	for _, c := range commits {
		require.NotEmpty(t, taskByCommit[c], "%s is in the branch, and no task has landed with it", c)
		require.True(t, passes(t, repo, c), "the check must pass at %s", c)
	}
	for id, l := range landings {
		if l.GetState() == fleetv1.Landing_landed {
			continue
		}
		combined, err := exec.Command("git", "-C", repo, "merge-tree", "--write-tree", "main", l.GetHeadSha()).Output() //nolint:gosec // the test's own repository
		if l.GetState() == fleetv1.Landing_conflict {
			require.Error(t, err, "the work of %s could land: %s, although its conflict was\n%s", id, l.GetProblem(), l.GetConflicts()[0].GetHunks())
			continue
		}
		require.True(t, err != nil || !passes(t, repo, strings.TrimSpace(string(combined))), "the work of %s could land: %s", id, l.GetProblem())
	}
	require.Empty(t, git(t, repo, "status", "--porcelain"), "the files in the repository must follow the branch")
	return states
}

// startWork creates an agent that works on the task, and returns the task's id.
func startWork(t *testing.T, s *server, agent, project, work string) string {
	t.Helper()
	mustCall(t, s, fleetv1.FleetServiceClient.CreateAgent, &fleetv1.CreateAgentRequest{Name: agent, Project: project, Spec: "x", RequestId: agent})
	started := mustCall(t, s, fleetv1.FleetServiceClient.StartAgentTask, &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: work, RequestId: "task-" + agent})
	return started.GetTask().GetId()
}

// awaitWork waits until the tasks have ended.
func awaitWork(t *testing.T, s *server, ids []string) {
	t.Helper()
	for done := false; !done; {
		done = mustCall(t, s, fleetv1.FleetServiceClient.WaitTasks, &fleetv1.WaitTasksRequest{TaskIds: ids}).GetDone()
	}
}

// land requests the landing of the tasks, and repeats the request until a server accepts it.
func (f *fleetUnderLoad) land(t *testing.T, r *rand.Rand, ids []string) {
	t.Helper()
	request := &fleetv1.LandTasksRequest{TaskIds: ids, NoFix: true, RequestId: "land"}
	for err := f.call(r, "LandTasks", request, &fleetv1.LandTasksResponse{}); err != nil; err = f.call(r, "LandTasks", request, &fleetv1.LandTasksResponse{}) {
		require.Empty(t, reasonOf(err), err)
	}
}

// awaitLandings waits until the landing queue is empty, and returns the landing of each task.
func (f *fleetUnderLoad) awaitLandings(t *testing.T, r *rand.Rand, ids []string) map[string]*fleetv1.Landing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), operationTimeout)
	defer cancel()
	landings := map[string]*fleetv1.Landing{}
	for len(landings) < len(ids) {
		pause(ctx, 100*time.Millisecond)
		require.NoError(t, ctx.Err(), "work still waits: %v", landings)
		answer := &fleetv1.ListReviewsResponse{}
		if err := f.call(r, "ListReviews", &fleetv1.ListReviewsRequest{States: []fleetv1.Landing_State{fleetv1.Landing_queued}}, answer); err != nil || answer.GetTotalCount() > 0 {
			continue
		}
		for _, id := range ids {
			shown := &fleetv1.ShowTaskResponse{}
			if err := f.call(r, "ShowTask", &fleetv1.ShowTaskRequest{TaskId: id}, shown); err == nil {
				landings[id] = shown.GetTask().GetLanding()
			}
		}
	}
	return landings
}

// passes reports whether the check passes on the files of the commit or tree.
func passes(t *testing.T, repo, tree string) bool {
	t.Helper()
	dir := t.TempDir()
	archive := exec.Command("sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3"`, "sh", repo, tree, dir) //nolint:gosec // the test's own repository
	out, err := archive.CombinedOutput()
	require.NoError(t, err, string(out))
	check := exec.Command("sh", "check.sh")
	check.Dir = dir
	return check.Run() == nil
}

// git runs git and returns its output.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...) //nolint:gosec // the test's own repository
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}
