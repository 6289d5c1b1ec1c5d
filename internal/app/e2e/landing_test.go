package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/app/e2e/faultproxy"
)

// landingServer is a server with the project Runner, whose agents work in clones of one repository.
type landingServer struct {
	caller
	origin string // the path of the repository
	setup  setup
}

// newLandingServer starts a server and creates the agents. Each begins with a clone of the repository. url is the URL of Coder, and settings are lines of
// the project.
func newLandingServer(t *testing.T, b *testbed, url, face, settings string, agents ...string) *landingServer {
	t.Helper()
	s := &landingServer{origin: filepath.Join(t.TempDir(), "shop.git")}
	require.NoError(t, os.Chmod(filepath.Dir(s.origin), 0o755)) //nolint:gosec // the workspaces can have other users
	first := t.TempDir()
	shell(t, first, "git init -q --bare -b main "+s.origin+"; git init -q -b main; for n in $(seq 20); do echo line $n; done >lines; mkdir keys; echo first >keys/first; git add .; "+
		"git -c user.name=ada -c user.email=ada@example.com commit -qm first; git push -q "+s.origin+" main")
	s.setup = setup{url: url, coderLines: "  projects:\n    Runner:\n      template: runner\n      repository: " + s.origin + "\n" + settings}
	s.caller = b.serve(t, s.setup).callerOn(face)
	s.setup.prefix, s.setup.data = s.prefix, s.data
	for _, name := range agents {
		require.Equal(t, "idle", s.call(t, "create_agent", object{"name": name, "project": "Runner", "spec": "x"}).text("agent.status"))
		s.completeTask(t, name, "git remote set-url origin "+s.origin+"; git fetch -q; git checkout -q -B main origin/main; git config user.name "+name+"; git config user.email "+name+"@example.com")
	}
	return s
}

// shell runs the script with Bash, and returns its output without surrounding white space.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", script) //nolint:gosec // the test's own scripts
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// git runs a git command in the repository, and returns its output. Other shell commands may follow it.
func (s *landingServer) git(t *testing.T, command string) string {
	t.Helper()
	return shell(t, "", "git -C "+s.origin+" "+command)
}

// completeTask runs the script as a task of the agent, and returns its id. It waits until the task is completed and the agent is idle.
func (s *landingServer) completeTask(t *testing.T, agent, script string) string {
	t.Helper()
	id := s.startTask(t, agent, script)
	require.Equal(t, "completed", s.wait(t, id)["status"])
	s.eventually(t, agent+" is idle", func() bool { return s.agent(t, agent)["status"] == "idle" })
	return id
}

// waitForLandings waits until the landing queue is empty, and returns the landing of each task.
func (s *landingServer) waitForLandings(t *testing.T, ids ...string) (landings []object) {
	t.Helper()
	s.eventually(t, "the landing queue is empty", func() bool {
		waiting, problem := s.try(t, "list_reviews", object{"states": []any{"queued"}})
		return problem == nil && len(waiting.list("tasks")) == 0
	})
	for _, id := range ids {
		landing, _ := s.call(t, "show_task", object{"task_id": id}).valueAt("task.landing").(map[string]any)
		landings = append(landings, landing)
	}
	return landings
}

// TestLanding reviews the work of agents in workspaces, lands it, and publishes it.
func TestLanding(t *testing.T) {
	b := newTestbed(t, "bob")
	s := newLandingServer(t, b, b.url, "rest", "      checks: ['test \"$(cat keys/* | sort | uniq -d)\" = \"\"']\n", "ann", "bo", "carl", "dave")
	base := s.git(t, "rev-parse main")
	ann := s.completeTask(t, "ann", "sed -i 's/^line 3$/ann/' lines; echo ann >keys/ann; git add .; git commit -qm ann")
	bo := s.completeTask(t, "bo", "echo bo >keys/bo; head -c 30000000 /dev/urandom >large") // not committed
	carl := s.completeTask(t, "carl", "sed -i 's/^line 3$/carl/' lines; git commit -qam carl")
	dave := s.completeTask(t, "dave", "echo ann >keys/dave; git add .; git commit -qm dave")

	o := s.call(t, "show_overlaps", object{"project": "Runner"})
	require.Equal(t, base, o.text("sha"), "%v", o)
	require.Len(t, o.list("overlaps"), 1, "%v", o)
	require.Equal(t, true, o.list("overlaps")[0]["conflict"], "%v", o)

	r := s.call(t, "review_task", object{"task_id": ann, "verdict": "request_changes", "text": "say more", "comments": []any{object{"path": "keys/ann", "line": 1, "text": "who?"}}})
	next := r.text("landing.next_task_id")
	require.Equal(t, "completed", s.wait(t, next)["status"], "a shell must treat the review as a comment, and change nothing")

	dry := s.call(t, "land_tasks", object{"task_ids": []any{ann, bo, carl}, "dry_run": true})
	require.Contains(t, dry.text("message"), "2 of 3", "%v", dry)
	require.Equal(t, base, s.git(t, "rev-parse main"))
	start := time.Now()
	s.call(t, "land_tasks", object{"task_ids": []any{ann, bo, carl, dave}, "no_fix": true})
	landings := s.waitForLandings(t, ann, bo, carl, dave)
	t.Logf("landed in %s", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "landed", landings[0]["state"], "%v", landings[0])
	require.Equal(t, "landed", landings[1]["state"], "%v", landings[1])
	require.Equal(t, "conflict", landings[2]["state"], "%v", landings[2])
	require.Equal(t, "changes_requested", landings[3]["state"], "%v", landings[3])
	require.Equal(t, fmt.Sprint(landings[1]["landed_sha"], "\n", landings[0]["landed_sha"], "\n", base), s.git(t, "log --format=%H main"))
	require.Equal(t, "bo\nann", s.git(t, "log -2 --format=%an main | sed 's/ (Fleet)//'"))
	require.Equal(t, "ann\nbo\nfirst", s.git(t, "ls-tree --name-only main:keys"))

	// Fleet keeps the work of a deleted agent.
	s.remove(t, "bo")
	late := s.completeTask(t, "carl", "git fetch -q; git reset -q --hard origin/main; echo late >keys/late; git add .; git commit -qm late")
	s.remove(t, "carl")
	hook := filepath.Join(s.origin, "hooks", "pre-receive")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\necho protected; exit 1\n"), 0o755)) //nolint:gosec // git executes it
	s.call(t, "land_tasks", object{"task_ids": []any{late}, "no_fix": true})
	landings = s.waitForLandings(t, late)
	require.Equal(t, "review", landings[0]["state"], "%v", landings[0])
	require.Contains(t, landings[0]["problem"], "pre-receive hook declined", "a protected branch must not block the queue")
	require.NoError(t, os.Remove(hook))
	s.call(t, "land_tasks", object{"task_ids": []any{late}, "no_fix": true})
	landings = s.waitForLandings(t, late)
	require.Equal(t, "landed", landings[0]["state"], "%v", landings[0])
	require.Equal(t, "late", s.git(t, "show main:keys/late"))

	s.call(t, "publish_task", object{"task_id": dave, "branch": "dave/try"})
	require.Equal(t, "dave", s.git(t, "log -1 --format=%an dave/try"))
	s.remove(t, "ann")
	s.remove(t, "dave")
	s.requireRefusal(t, "show_overlaps", object{"project": "Runner"}, "AGENT_OFFLINE", 400, "start one of its agents")
}

// TestLandingOverBadNetwork lands the work of agents while requests to Coder and its workspaces are slow, refused, or interrupted, some of them after
// they have arrived. The work of each task must land once.
func TestLandingOverBadNetwork(t *testing.T) {
	b := newTestbed(t, "bob")
	proxy, err := faultproxy.New(b.url, 20261128, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	names := []string{"a0", "a1", "a2", "a3"}
	s := newLandingServer(t, b, proxy.URL(), "grpc", "      checks: ['test \"$(cat keys/* | sort | uniq -d)\" = \"\"']\n", names...)
	var ids []string
	for n, name := range names {
		ids = append(ids, s.completeTask(t, name, fmt.Sprintf("sed -i 's/^line %d$/%s/' lines; echo %s >keys/%s; head -c 10000000 /dev/urandom >%s", 3*n+1, name, name, name, name)))
	}
	proxy.SetFaults(faultproxy.Faults{Latency: 500 * time.Millisecond, Slow: 0.2, Refuse: 0.2, Cut: 0.1})
	before := proxy.Stats()
	request := object{"task_ids": []any{ids[0], ids[1], ids[2], ids[3]}, "no_fix": true, "request_id": "land"}
	b.eventually(t, "the request is accepted", func() bool {
		_, problem := s.try(t, "land_tasks", request)
		return problem == nil
	})
	s.waitForLandings(t, ids...)
	after := proxy.Stats()
	proxy.SetFaults(faultproxy.Faults{})
	t.Logf("%d requests: %d slow, %d refused, %d refused after they had arrived, %d answers cut",
		after.Requests-before.Requests, after.Slow-before.Slow, after.Refused-before.Refused, after.RefusedAfter-before.RefusedAfter, after.Cut-before.Cut)
	require.Positive(t, after.Refused-before.Refused)
	for n, l := range s.waitForLandings(t, ids...) {
		require.Equal(t, "landed", l["state"], "%s: %v", names[n], l)
	}
	require.Equal(t, "5", s.git(t, "rev-list --count main"), "the work of each task must land once")
}

// TestLandingSurvivesKills lands the work of agents. Meanwhile it kills the runner and the Coder agent of the workspace that lands the work, the Coder
// server, and the Fleet server, and finally stops that workspace. The work of each task must land at most once, and each commit of the branch must
// pass the check. Only the work in the stopped workspace may fail to land.
func TestLandingSurvivesKills(t *testing.T) {
	b := newTestbed(t, "bob")
	var names []string
	for n := range 6 {
		names = append(names, fmt.Sprintf("a%d", n))
	}
	s := newLandingServer(t, b, b.url, "grpc", "      checks: ['sleep 2; test \"$(cat keys/* | sort | uniq -d)\" = \"\"']\n", names...)
	var ids []any
	for n, name := range names {
		ids = append(ids, s.completeTask(t, name, fmt.Sprintf("sed -i 's/^line %d$/%s/' lines; echo %s >keys/%s; git add .; git commit -qm %s", 3*n+1, name, name, name, name)))
	}
	s.call(t, "land_tasks", object{"task_ids": ids, "no_fix": true, "request_id": "land"})
	commits := func() int { return len(strings.Fields(s.git(t, "rev-list main"))) }
	host := s.workspaceOf("a0") // the oldest workspace lands the work
	for n, crash := range []func(){
		func() { b.killRunner(t, host) },
		func() {
			s.kill(t)
			s.caller = b.serve(t, s.setup).callerOn("grpc")
		},
		func() { b.restartAgent(t, host) },
		func() { b.restartCoder(t) },
		func() {
			at, _ := b.workspace(t, host)
			b.requestBuild(t, at.ID, "stop") // then another workspace is the host
		},
	} {
		b.eventually(t, fmt.Sprintf("the branch has %d commits", n+1), func() bool { return commits() > n })
		crash()
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i], _ = id.(string)
	}
	landings := s.waitForLandings(t, texts...)
	log := strings.Fields(s.git(t, "log --format=%H main"))
	n := 0
	for i, l := range landings {
		if l["state"] == "landed" {
			require.Contains(t, log, l["landed_sha"])
			n++
			continue
		}
		require.Equal(t, "a0", names[i], "%s: only the work in the stopped workspace may remain unlanded: %v", names[i], l)
	}
	require.Len(t, log, n+1, "each landed task must have one commit")
	for _, c := range log {
		dir := t.TempDir()
		require.Empty(t, shell(t, dir, "git -C "+s.origin+" archive "+c+" | tar -x; cat keys/* | sort | uniq -d"))
	}
	s.git(t, "fsck --strict")
}
