package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// delegationServer is a server of a fleet whose agents may delegate tasks, in workspaces and on this machine.
type delegationServer struct {
	caller
	setup setup  // of the server; with it a test starts the next server
	dir   string // directory of the files with which the test and its agents synchronize
}

// newDelegationServer starts a server that requires tokens and that workspaces can reach. settings are lines of the section coder.
func newDelegationServer(t *testing.T, b *testbed, settings string) *delegationServer {
	t.Helper()
	d := &delegationServer{dir: t.TempDir()}
	require.NoError(t, os.Chmod(d.dir, 0o777)) //nolint:gosec // the workspaces can have other users
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	d.setup = setup{
		data: t.TempDir(), port: port, places: "[coder, local]",
		sections:   "local:\n  projects:\n    - {name: shell, driver: shell, roles: [{name: coder, default: true}]}\n",
		coderLines: fmt.Sprintf("  fleet_url: http://127.0.0.1:%d\n%s", port, settings),
	}
	d.setup.secret = b.firstToken(t, d.setup.data)
	d.caller = b.serve(t, d.setup).callerOn("rest")
	d.setup.prefix = d.prefix
	return d
}

// firstToken creates an admin's token for a server that will use the data directory.
func (b *testbed) firstToken(t *testing.T, data string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "token", "create", "me", "--admin", "--embedded", "--data", data) //nolint:gosec // this program
	cmd.Env = []string{serverEnv + "=1", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// managerGrant is a setting of the section coder that lets only agents with the role manager delegate.
const managerGrant = "  delegate:\n    manager: {projects: [Runner, local/shell], pools: [crew], roles: [coder], max_children: 20, per_minute: 1000}\n"

// withToken returns a caller that uses the token.
func (d *delegationServer) withToken(secret string) caller {
	return (&server{testbed: d.testbed, http: d.http, secret: secret}).callerOn("rest")
}

// file returns the path of a file in dir.
func (d *delegationServer) file(name string) string { return filepath.Join(d.dir, name) }

// openGate lets the agents that wait for the gate continue.
func (d *delegationServer) openGate(t *testing.T, gate string) {
	t.Helper()
	require.NoError(t, os.WriteFile(d.file(gate), nil, 0o644)) //nolint:gosec // the workspaces can have other users
}

// script returns the script of a parent. It delegates the tasks, runs the rest, and ends its turn. In its next turn it appends its feedback to the file
// "told", after a line "# Went on".
func (d *delegationServer) script(rest string, tasks ...object) string {
	var s strings.Builder
	fmt.Fprintf(&s, "D=%s\n", d.dir)
	s.WriteString(`if [ -n "${FLEET_FEEDBACK_FILE:-}" ]; then
  { echo "# Went on"; cat "$FLEET_FEEDBACK_FILE"; echo; } >>$D/told
  exit
fi
fleet() { # METHOD PATH [BODY]
  printf 'header = "Authorization: Bearer %s"\n' "$(cat "$FLEET_REPORT_TOKEN_FILE")" |
    curl -s -K - -X "$1" ${3:+-d "$3"} "${FLEET_REPORT_URL%/mcp/all}$2"
}
`)
	for _, task := range tasks {
		fmt.Fprintf(&s, "fleet POST /v1/queue %s >>$D/answers\necho >>$D/answers\n", quoted(task))
	}
	s.WriteString(rest + "\n")
	return s.String()
}

// quoted returns the object's JSON as one quoted word of a shell script.
func quoted(o object) string {
	data, _ := json.Marshal(o) // texts can always be encoded
	return "'" + strings.ReplaceAll(string(data), "'", `'\''`) + "'"
}

// waitScript returns a script that waits until the gate is open.
func (d *delegationServer) waitScript(gate string) string {
	return fmt.Sprintf("while [ ! -e %s ]; do sleep 0.05; done\n", d.file(gate))
}

// create creates an agent in a workspace, and returns the home directory of the workspace.
func (d *delegationServer) create(t *testing.T, name, project, role string) (home string) {
	t.Helper()
	r := d.call(t, "create_agent", object{"name": name, "project": project, "role": role, "spec": "x"})
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	return d.home(t, d.workspaceOf(name))
}

// tree returns the task and all tasks below it.
func (d *delegationServer) tree(t *testing.T, id string) []object {
	t.Helper()
	return d.call(t, "show_task_tree", object{"task_id": id}).list("tasks")
}

// waitForFile waits until the script has written the file.
func (d *delegationServer) waitForFile(t *testing.T, name string) string {
	t.Helper()
	d.eventually(t, name+" is written", func() bool { return fileExists(d.file(name)) })
	data, err := os.ReadFile(d.file(name))
	require.NoError(t, err)
	return string(data)
}

// waitUntilWaiting waits until the turn of the task is over and the task waits for n tasks.
func (d *delegationServer) waitUntilWaiting(t *testing.T, id string, n int) {
	t.Helper()
	d.eventually(t, "the parent waits", func() bool {
		waits := object(asMap(d.call(t, "show_task", object{"task_id": id}).valueAt("task.queue"))).list("waits")
		return len(waits) == 1 && waits[0]["reason"] == "delegated" && strings.Contains(waits[0].text("text"), fmt.Sprintf("waits for %d delegated", n))
	})
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// TestDelegation lets an agent in a workspace delegate to agents in other workspaces, to a pool, and to an agent on this
// machine. While its task waits, the agent is free. The task continues once, with all results.
func TestDelegation(t *testing.T) {
	b := newTestbed(t, "bob")
	d := newDelegationServer(t, b, managerGrant)
	home := d.create(t, "boss", "Runner", "manager")
	d.call(t, "create_pool", object{"name": "crew", "project": "Runner", "role": "coder", "max_agents": 1})
	part := func(name, prelude string, more object) object {
		more["task_description"] = prelude + "echo part " + name
		return more
	}
	id := d.startTask(t, "boss", d.script(
		`echo "$FLEET_REPORT_URL $FLEET_REPORT_TOKEN_FILE $(stat -c '%a %u %s' "$FLEET_REPORT_TOKEN_FILE") $(id -u)" >$D/seen.new; mv $D/seen.new $D/seen`+"\n"+d.waitScript("turn"),
		part("one", d.waitScript("one"), object{"project": "Runner", "role": "coder", "new_agent": true}),
		part("two", d.waitScript("two"), object{"pool": "crew"}),
		part("three", "sleep 20\n", object{"project": "local/shell", "role": "coder", "new_agent": true}),
	))
	seen := strings.Fields(d.waitForFile(t, "seen"))
	require.Len(t, seen, 6)
	require.Equal(t, fmt.Sprintf("http://127.0.0.1:%d/mcp/all", d.setup.port), seen[0])
	require.Equal(t, "600", seen[2], "nobody else reads the token")
	require.Equal(t, seen[5], seen[3])
	secret, err := os.ReadFile(seen[1])
	require.NoError(t, err)
	for _, p := range allProcesses() {
		require.NotContains(t, strings.Join(append(p.argv, p.env...), "\n"), string(secret), "the token is on a command line or in the environment of a process")
	}
	withParentToken := d.withToken(string(secret))
	withParentToken.call(t, "show_task_tree", object{"task_id": id})

	require.Len(t, d.tree(t, id), 4)
	answers := strings.TrimSpace(d.waitForFile(t, "answers"))
	require.Equal(t, 3, strings.Count(answers, `"pending"`), answers)
	d.openGate(t, "turn")
	d.waitUntilWaiting(t, id, 3)
	require.NoFileExists(t, seen[1], "the token's file must be removed at the end of the run")
	withParentToken.requireRefusal(t, "show_task_tree", object{"task_id": id}, "UNAUTHENTICATED", http.StatusUnauthorized)
	require.Empty(t, taskProcesses(home, id))
	require.Equal(t, "idle", d.agent(t, "boss")["status"], "the agent must be free while the parent waits")
	require.Equal(t, "completed", d.wait(t, d.startTask(t, "boss", "echo something else"))["status"], "other tasks can use the agent")

	d.openGate(t, "one")
	d.openGate(t, "two")
	done := d.wait(t, id)
	require.Equal(t, "completed", done["status"], "%v", done)
	feedback := d.waitForFile(t, "told")
	require.Equal(t, 1, strings.Count(feedback, "# Went on\n"), feedback)
	for _, name := range []string{"one", "two", "three"} {
		require.Equal(t, 1, strings.Count(feedback, "# part "+name+"\n"), feedback)
	}
	tree := d.tree(t, id)
	require.Len(t, tree, 4)
	var places []string
	for _, c := range tree {
		require.Equal(t, "completed", c["status"])
		if c["id"] != id {
			require.Equal(t, id, c["parent_task_id"])
			require.EqualValues(t, 1, c["depth"])
			places = append(places, d.agent(t, c.text("agent_name")).text("place"))
		}
	}
	require.ElementsMatch(t, []string{"coder", "coder", "local"}, places)
	require.EqualValues(t, 4, d.call(t, "list_tasks", object{"root_task_id": id})["total_count"])
	d.call(t, "delete_pool", object{"name": "crew"})
}

// TestDelegationStop stops the root task of a tree whose processes ignore signals. All processes must end, in every
// workspace.
func TestDelegationStop(t *testing.T) {
	const limit = 10 * time.Second
	b := newTestbed(t, "bob")
	d := newDelegationServer(t, b, "  delegate: {manager: {max_depth: 3}}\n")
	home := d.create(t, "boss", "Runner", "manager")
	stubborn := func(name string) string {
		return fmt.Sprintf("trap '' TERM INT HUP\nsetsid sleep 3601 &\n(sleep 3602 &)\ntouch %s\nwhile :; do sleep 1; done\n", d.file(name))
	}
	part := func(role, script string) object {
		return object{"project": "Runner", "role": role, "new_agent": true, "task_description": script}
	}
	id := d.startTask(t, "boss", d.script(stubborn("boss"), part("coder", stubborn("child")), part("manager", d.script(stubborn("manager"), part("coder", stubborn("grandchild"))))))
	for _, name := range []string{"boss", "child", "manager", "grandchild"} {
		d.waitForFile(t, name)
	}
	homes := map[string]string{id: home}
	for _, c := range d.tree(t, id) {
		homes[c.text("id")] = d.home(t, d.workspaceOf(c.text("agent_name")))
	}
	require.Len(t, homes, 4)
	count := func() (n int) {
		for id, home := range homes {
			n += len(taskProcesses(home, id))
		}
		return n
	}
	require.GreaterOrEqual(t, count(), 4*4, "each of the four tasks must have at least four processes")
	start := time.Now()
	d.call(t, "stop_task", object{"task_id": id})
	within(t, limit-time.Since(start), "no process of the tree runs", func() bool { return count() == 0 })
	t.Logf("the tree's processes had ended %s after the call of stop_task", time.Since(start).Round(10*time.Millisecond))
	for _, c := range d.tree(t, id) {
		require.Equal(t, "stopped", d.wait(t, c.text("id"))["status"])
	}
}

// TestDelegationNotAllowed checks that an agent without a grant has no token, and that an agent with a grant cannot exceed it. Forged and old tokens
// must be refused. The audit log must record each refusal.
func TestDelegationNotAllowed(t *testing.T) {
	b := newTestbed(t, "bob")
	d := newDelegationServer(t, b, managerGrant)
	d.create(t, "plain", "Runner", "operator")
	done := d.wait(t, d.startTask(t, "plain", "env | grep ^FLEET_ | sort; find ~ -name report-token"))
	require.Equal(t, "completed", done["status"])
	env := d.call(t, "show_task", object{"task_id": done.text("id"), "include_payload": true}).text("task.payload")
	require.Contains(t, env, "FLEET_TASK_ID=")
	require.NotContains(t, env, "REPORT")

	d.create(t, "boss", "Runner", "manager")
	id := d.startTask(t, "boss", d.script(`cp "$FLEET_REPORT_TOKEN_FILE" $D/first`))
	require.Equal(t, "completed", d.wait(t, id)["status"])
	next := d.startTask(t, "boss", d.script(`cp "$FLEET_REPORT_TOKEN_FILE" $D/second.new; mv $D/second.new $D/second`+"\n"+d.waitScript("turn")))
	first, second := d.waitForFile(t, "first"), d.waitForFile(t, "second")
	require.NotEqual(t, first, second, "each run has a token of its own")
	forged := regexp.MustCompile(`[A-Z2-7]{26}$`).ReplaceAllString(second, strings.Repeat("A", 26))
	require.NotEqual(t, second, forged)
	queue := object{"project": "Runner", "role": "coder", "new_agent": true, "task_description": "true"}
	before := d.auditCount(t, "UNAUTHENTICATED")
	for _, secret := range []string{first, forged} {
		d.withToken(secret).requireRefusal(t, "queue_task", queue, "UNAUTHENTICATED", http.StatusUnauthorized)
		d.withToken(secret).requireRefusal(t, "show_task", object{"task_id": next}, "UNAUTHENTICATED", http.StatusUnauthorized)
	}
	require.Equal(t, before+4, d.auditCount(t, "UNAUTHENTICATED"))
	withOwnToken := d.withToken(second)
	before = d.auditCount(t, "DELEGATION_REFUSED")
	for _, with := range []object{{"project": "Claude"}, {"role": "operator"}, {"pool": "nobody"}} {
		task := object{"task_description": "true", "project": "Runner"}
		for key, value := range with {
			task[key] = value
		}
		if with["pool"] != nil {
			delete(task, "project")
		}
		withOwnToken.requireRefusal(t, "queue_task", task, "DELEGATION_REFUSED", http.StatusForbidden)
	}
	require.Equal(t, before+3, d.auditCount(t, "DELEGATION_REFUSED"))
	withOwnToken.requireRefusal(t, "show_task", object{"task_id": id}, "TASK_NOT_FOUND", http.StatusNotFound)
	withOwnToken.requireRefusal(t, "list_agents", object{}, "PERMISSION_DENIED", http.StatusForbidden)
	d.openGate(t, "turn")
	require.Equal(t, "completed", d.wait(t, next)["status"])
	withOwnToken.requireRefusal(t, "queue_task", queue, "UNAUTHENTICATED", http.StatusUnauthorized)
}

// auditCount returns how many calls with the outcome are in the audit log, at most 1000.
func (d *delegationServer) auditCount(t *testing.T, outcome string) int {
	t.Helper()
	return len(d.call(t, "list_audit", object{"outcome": outcome, "limit": 1000}).list("entries"))
}
