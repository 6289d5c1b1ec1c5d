package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// reloadServer is a server with agents on this machine and a configuration file.
type reloadServer struct {
	*App
	t      *testing.T
	ctx    context.Context
	file   string
	client fleetv1.FleetServiceClient
}

const reloadProjects = "local:\n  sandbox: none\n  projects:\n"

func newReloadServer(t *testing.T, text string) *reloadServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	t.Cleanup(cancel)
	r := &reloadServer{t: t, ctx: ctx, file: writeConfig(t, text)}
	read := func(string) (Config, error) {
		return Load(r.file, []string{"FLEET_DATA=" + filepath.Join(filepath.Dir(r.file), "data")}, nil)
	}
	cfg, err := read("")
	require.NoError(t, err)
	r.App, err = Open(ctx, cfg, Options{Reload: read})
	require.NoError(t, err)
	r.Start()
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	r.client = fleetv1.NewFleetServiceClient(r.Conn())
	return r
}

// write replaces the text of the configuration file.
func (r *reloadServer) write(text string) {
	require.NoError(r.t, os.WriteFile(r.file, []byte(text), 0o600))
}

// reloadWith replaces the text of the configuration file and reloads it.
func (r *reloadServer) reloadWith(text string) (*fleetv1.ReloadConfigResponse, error) {
	r.write(text)
	return r.client.ReloadConfig(r.ctx, &fleetv1.ReloadConfigRequest{})
}

func (r *reloadServer) createAgent(name, project, role string) {
	_, err := r.client.CreateAgent(r.ctx, &fleetv1.CreateAgentRequest{Name: name, Project: project, Role: role, Spec: "x"})
	require.NoError(r.t, err)
}

func (r *reloadServer) showAgent(name string) *fleetv1.Agent {
	resp, err := r.client.ShowAgent(r.ctx, &fleetv1.ShowAgentRequest{AgentName: name})
	require.NoError(r.t, err)
	return resp.GetAgent()
}

func (r *reloadServer) startTask(agent, script string) (*fleetv1.StartAgentTaskResponse, error) {
	return r.client.StartAgentTask(r.ctx, &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: script})
}

// awaitEnd waits for the task, and returns its status and summary.
func (r *reloadServer) awaitEnd(id string) string {
	for {
		resp, err := r.client.WaitTasks(r.ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{id}})
		require.NoError(r.t, err)
		if resp.GetDone() {
			task := resp.GetTasks()[0]
			return task.GetStatus().String() + ": " + strings.TrimSpace(task.GetSummary())
		}
	}
}

// TestReload removes the project and the role of running agents. Their tasks continue, including checks and a retry. The
// agents report why they accept no more tasks, and accept tasks again when the configuration has the project and the role
// again.
func TestReload(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	shop := "  - name: shop\n    checks: ['test -e second || { touch second; false; }']\n    retries: 1\n    roles: [{name: coder}]\n"
	web := "  - name: web\n    roles: [{name: coder}, {name: %s}]\n"
	before := reloadProjects + shop + fmt.Sprintf(web, "writer")
	r := newReloadServer(t, before)
	r.createAgent("papi", "shop", "coder")
	r.createAgent("sony", "web", "writer")
	r.createAgent("toni", "web", "coder")
	task, err := r.startTask("papi", "until [ -e "+gate+" ]; do sleep 0.05; done; echo went on")
	require.NoError(t, err)

	done, err := r.reloadWith(reloadProjects + fmt.Sprintf(web, "operator") + "  - name: docs\n")
	require.NoError(t, err)
	require.Equal(t, []string{"local.projects: docs added", "local.projects: web changed", "local.projects: shop removed"}, done.GetChanges())
	require.ElementsMatch(t, []string{"papi", "sony"}, done.GetClosedAgents())
	papi, sony := r.showAgent("papi"), r.showAgent("sony")
	require.Equal(t, "busy", papi.GetStatus().String(), "its task must continue")
	require.Contains(t, papi.GetStateReason(), "project shop is no longer in fleet.yaml, which has docs, web")
	require.Equal(t, []string{"offline", "running"}, []string{sony.GetStatus().String(), sony.GetState().String()})
	require.Contains(t, sony.GetStateReason(), `role "writer" is no longer a role of the project web`)
	_, err = r.startTask("sony", "true")
	require.ErrorContains(t, err, `agent "sony" accepts no tasks: its role "writer"`)
	_, err = r.client.CreateAgent(r.ctx, &fleetv1.CreateAgentRequest{Name: "lina", Project: "shop", Spec: "x"})
	require.ErrorContains(t, err, `project "shop" not found: the projects are`)
	r.createAgent("lina", "docs", "coder")
	_, err = r.reloadWith(reloadProjects + fmt.Sprintf(web, "operator") + "  - name: docs\ncagent: {prices: {mine/bird: {input: 7}}}\n")
	require.NoError(t, err)
	price, ok := r.places.prices.Of("mine/bird")
	require.True(t, ok)
	require.InDelta(t, 7, price.Input, 0)
	other, err := r.startTask("toni", "echo fine")
	require.NoError(t, err)
	require.Equal(t, "completed: fine", r.awaitEnd(other.GetTask().GetId()))

	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Equal(t, "completed: went on", r.awaitEnd(task.GetTask().GetId()), "the check of the removed project fails once, and the second try succeeds")
	_, err = r.startTask("papi", "true")
	require.ErrorContains(t, err, `agent "papi" accepts no tasks: its project shop`)
	require.Equal(t, "offline", r.showAgent("papi").GetStatus().String())

	_, err = r.client.DeleteAgent(r.ctx, &fleetv1.DeleteAgentRequest{AgentName: "lina"})
	require.NoError(t, err)
	done, err = r.reloadWith(before)
	require.NoError(t, err)
	require.Empty(t, done.GetClosedAgents())
	for _, name := range []string{"papi", "sony"} {
		a := r.showAgent(name)
		require.Equal(t, "idle", a.GetStatus().String(), name)
		require.Empty(t, a.GetStateReason(), name)
		task, err := r.startTask(name, "echo again")
		require.NoError(t, err)
		require.Equal(t, "completed: again", r.awaitEnd(task.GetTask().GetId()))
	}
}

// TestReloadRefuses checks that a file that cannot be applied changes nothing. Even its valid settings have no effect.
func TestReloadRefuses(t *testing.T) {
	t.Parallel()
	projects := reloadProjects + "  - name: shop\n"
	r := newReloadServer(t, projects)
	added := projects + "  - name: more\n"
	for name, c := range map[string]struct{ text, want string }{
		"syntax":             {added + "limits: {agents", "fleet.yaml: [6:"},
		"unknown key":        {added + "    drvier: claude\n", `fleet.yaml:6: unknown key "drvier"`},
		"wrong type":         {added + "limits: {agents: many}\n", "fleet.yaml:6: limits.agents"},
		"wrong value":        {added + "limits: {agents: -1}\n", "limits.agents is -1"},
		"wrong project":      {added + "    driver: nobody\n", `local.projects: project 2 "more"`},
		"second of a name":   {added + "  - name: Shop\n", `there are two projects named "Shop"`},
		"output":             {added + "max_output: 7\n", "restart the server to change max_output, or"},
		"addresses":          {added + "http: 127.0.0.1:1\ngrpc: 127.0.0.1:2\nmetrics: 127.0.0.1:3\n", "change http, grpc, metrics, or"},
		"store":              {added + "store: postgres://me:secret@host/db\n", "change store, or"},
		"auth":               {added + "auth: tokens\n", "change auth, or"},
		"places":             {added + "places: [fake]\n", "change places, or"},
		"sandbox of all":     {strings.Replace(added, "sandbox: none", "sandbox: auto", 1), "change local.sandbox, or"},
		"a part of a struct": {added + "tls: {cert: a, key: b}\nlifecycle: {max_running: 3}\n", "change tls.cert, tls.key, lifecycle.max_running, or"},
	} {
		_, err := r.reloadWith(c.text)
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "secret", name)
	}
	require.NoError(t, os.Remove(r.file))
	_, err := r.client.ReloadConfig(r.ctx, &fleetv1.ReloadConfigRequest{})
	require.ErrorContains(t, err, "no such file")
	list, err := r.client.ListAgentProjects(r.ctx, &fleetv1.ListAgentProjectsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetProjects(), 1)
	done, err := r.reloadWith(added)
	require.NoError(t, err)
	require.Equal(t, []string{"local.projects: more added"}, done.GetChanges())
}

// TestConcurrentReloads lets four goroutines write one of two configurations and reload it, while an agent works. Every
// task must complete, and the configuration that is reloaded last must take effect.
func TestConcurrentReloads(t *testing.T) {
	t.Parallel()
	one := reloadProjects + "  - name: shop\n"
	two := one + "  - name: more\n    env: {N: '2'}\nlimits: {requests_per_second: 0}\n"
	r := newReloadServer(t, one)
	r.createAgent("papi", "shop", "coder")
	var all sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 4 {
		all.Go(func() {
			for j := range 5 {
				text := []string{one, two}[(i+j)%2]
				path := fmt.Sprintf("%s.%d", r.file, i)
				errs <- errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Rename(path, r.file))
				_, err := r.client.ReloadConfig(r.ctx, &fleetv1.ReloadConfigRequest{})
				errs <- err
			}
		})
	}
	for range 3 {
		task, err := r.startTask("papi", "echo fine")
		require.NoError(t, err)
		require.Equal(t, "completed: fine", r.awaitEnd(task.GetTask().GetId()))
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	_, err := r.reloadWith(two)
	require.NoError(t, err)
	list, err := r.client.ListAgentProjects(r.ctx, &fleetv1.ListAgentProjectsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetProjects(), 2)
}

// TestReloadOfRemovedFile checks that a file that was removed is an error, also if the server started without a file and applied it later.
func TestReloadOfRemovedFile(t *testing.T) {
	t.Chdir(t.TempDir())
	read := func(file string) (Config, error) {
		return Load(file, []string{"FLEET_DATA=data", "FLEET_PLACES=fake"}, nil)
	}
	cfg, err := read("")
	require.NoError(t, err)
	a, err := Open(t.Context(), cfg, Options{Reload: read})
	require.NoError(t, err)
	a.Start()
	defer func() { require.NoError(t, a.Close()) }()
	require.NoError(t, os.WriteFile(ConfigFile, []byte("limits: {agents: 7}\n"), 0o600))
	file, changes, err := a.reload(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"limits.agents"}, changes)
	require.NoError(t, os.Remove(file))
	_, _, err = a.reload(t.Context())
	require.ErrorContains(t, err, "no such file")
}
