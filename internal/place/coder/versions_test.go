package coder_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// versionedCoder is a fake Coder whose template has two versions: an old one, which the workspace uses, and a new one.
type versionedCoder struct {
	*fakeCoder
	parameters map[uuid.UUID][]codersdk.TemplateVersionParameter // by version
	values     []codersdk.WorkspaceBuildParameter                // of the workspace's last build
	builds     []codersdk.CreateWorkspaceBuildRequest
	creations  []codersdk.CreateWorkspaceRequest
}

var newVersionID = uuid.MustParse("20000000-0000-4000-8000-000000000001")

func parameterOptions(values ...string) (list []codersdk.TemplateVersionParameterOption) {
	for _, v := range values {
		list = append(list, codersdk.TemplateVersionParameterOption{Name: v, Value: v})
	}
	return list
}

func newVersionedCoder(t *testing.T) *versionedCoder {
	x := &versionedCoder{fakeCoder: newFakeCoder(t)}
	region := codersdk.TemplateVersionParameter{Name: "region", Type: "string", Description: "Where it runs", Required: true, Options: parameterOptions("eu", "us")}
	x.parameters = map[uuid.UUID][]codersdk.TemplateVersionParameter{
		versionID:    {{Name: "role", Mutable: true, Options: parameterOptions("coder", "manager")}},
		newVersionID: {{Name: "role", Mutable: true, Options: parameterOptions("coder", "ops")}, region},
	}
	x.values = []codersdk.WorkspaceBuildParameter{{Name: "role", Value: "coder"}}
	x.ws.TemplateActiveVersionID, x.ws.Outdated = newVersionID, true
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		path := strings.TrimPrefix(r.URL.Path, "/api/v2/")
		id, isVersion := strings.CutSuffix(strings.TrimPrefix(path, "templateversions/"), "/rich-parameters")
		switch {
		case path == "templates":
			return writeJSON(w, []codersdk.Template{{ID: templateID, Name: "setup", ActiveVersionID: newVersionID}})
		case isVersion:
			return writeJSON(w, x.parameters[uuid.MustParse(id)])
		case strings.HasSuffix(path, "/presets"):
			return writeJSON(w, []codersdk.Preset{})
		case strings.HasSuffix(path, "/parameters"):
			x.mu.Lock()
			defer x.mu.Unlock()
			return writeJSON(w, x.values)
		case strings.HasSuffix(path, "/builds"):
			var b codersdk.CreateWorkspaceBuildRequest
			x.NoError(json.NewDecoder(r.Body).Decode(&b))
			x.builds = append(x.builds, b)
			w.WriteHeader(http.StatusCreated)
			return writeJSON(w, codersdk.WorkspaceBuild{ID: uuid.New()})
		case r.Method == http.MethodPost && strings.HasSuffix(path, "/workspaces"):
			var c codersdk.CreateWorkspaceRequest
			x.NoError(json.NewDecoder(r.Body).Decode(&c))
			x.creations = append(x.creations, c)
			w.WriteHeader(http.StatusCreated)
			return writeJSON(w, x.ws)
		case strings.Contains(path, "/workspace/"):
			writeError(w, http.StatusNotFound, "no")
			return true
		case path == "buildinfo":
			return writeJSON(w, codersdk.BuildInfoResponse{DashboardURL: "https://coder.example.com/"})
		case path == "applications/host":
			return writeJSON(w, codersdk.AppHostResponse{Host: "*--apps.example.com"})
		case strings.HasSuffix(path, "/listening-ports"):
			return writeJSON(w, codersdk.WorkspaceAgentListeningPortsResponse{Ports: []codersdk.WorkspaceAgentListeningPort{{Port: 8080}, {Port: 3000, ProcessName: "<evil>"}}})
		}
		return false
	}
	return x
}

func (v *versionedCoder) stop() {
	v.ws.LatestBuild.Status, v.ws.LatestBuild.Transition, v.ws.LatestBuild.Resources = codersdk.WorkspaceStatusStopped, codersdk.WorkspaceTransitionStop, nil
}

// TestStartChecks checks which changes CheckStart refuses, and that Start sends only the changes.
func TestStartChecks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent   func(*fleet.Agent)
		change  func(*versionedCoder)
		reason  fleet.Reason
		says    string
		version uuid.UUID
		sends   []codersdk.WorkspaceBuildParameter
	}{
		"nothing changes":                       {},
		"a role that was changed in Coder":      {change: func(x *versionedCoder) { x.values[0].Value = "manager" }},
		"a role that the version no longer has": {change: func(x *versionedCoder) { x.values[0].Value = "removed" }, agent: func(a *fleet.Agent) { a.Role = "removed" }},
		"a role of the new version": {
			agent:  func(a *fleet.Agent) { a.Role, a.Next.Role = "ops", true },
			reason: fleet.ReasonRoleNotFound, says: "coder, manager",
		},
		"another role": {
			agent: func(a *fleet.Agent) { a.Role, a.Next.Role = "Manager", true },
			sends: []codersdk.WorkspaceBuildParameter{{Name: "role", Value: "manager"}},
		},
		"a role that is set once": {
			agent:  func(a *fleet.Agent) { a.Role, a.Next.Role = "manager", true },
			change: func(x *versionedCoder) { x.parameters[versionID][0].Mutable = false },
			reason: fleet.ReasonInvalidArgument, says: "set once",
		},
		"an update without a required value": {
			agent:  func(a *fleet.Agent) { a.Next.Update = true },
			reason: fleet.ReasonInvalidArgument, says: `needs the parameter "region" (Where it runs): give one of eu, us`,
		},
		"an update with a role that the new version does not have": {
			agent:  func(a *fleet.Agent) { a.Role, a.Next.Update = "manager", true },
			reason: fleet.ReasonRoleNotFound, says: "coder, ops",
		},
		"an update": {
			agent: func(a *fleet.Agent) {
				a.Role, a.Parameters = "ops", map[string]string{"region": "eu"}
				a.Next = fleet.NextStart{Role: true, Update: true, Parameters: true}
			},
			version: newVersionID, sends: []codersdk.WorkspaceBuildParameter{{Name: "role", Value: "ops"}, {Name: "region", Value: "eu"}},
		},
		"a template that requires its newest version": {
			agent:   func(a *fleet.Agent) { a.Parameters = map[string]string{"region": "us"} },
			change:  func(x *versionedCoder) { x.ws.TemplateRequireActiveVersion = true },
			version: newVersionID, sends: []codersdk.WorkspaceBuildParameter{{Name: "role", Value: "coder"}, {Name: "region", Value: "us"}},
		},
		"a value that is not an option": {
			agent: func(a *fleet.Agent) {
				a.Parameters, a.Next = map[string]string{"region": "mars"}, fleet.NextStart{Update: true, Parameters: true}
			},
			reason: fleet.ReasonInvalidArgument, says: `cannot be "mars": give one of eu, us`,
		},
		"a value that is set once": {
			agent: func(a *fleet.Agent) { a.Parameters, a.Next.Parameters = map[string]string{"region": "us"}, true },
			change: func(x *versionedCoder) {
				x.parameters[versionID] = x.parameters[newVersionID]
				x.values = append(x.values, codersdk.WorkspaceBuildParameter{Name: "region", Value: "eu"})
			},
			reason: fleet.ReasonInvalidArgument, says: "cannot be changed",
		},
		"a parameter that does not exist": {
			agent:  func(a *fleet.Agent) { a.Parameters, a.Next.Parameters = map[string]string{"size": "2"}, true },
			reason: fleet.ReasonInvalidArgument, says: `no parameter "size"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newVersionedCoder(t)
			if c.change != nil {
				c.change(x)
			}
			a := x.agent()
			if c.agent != nil {
				c.agent(&a)
			}
			p := x.newPlace()
			_, err := p.CheckStart(t.Context(), a)
			if c.reason != "" {
				x.Equal(c.reason, fleet.ReasonOf(err), "%v", err)
				x.ErrorContains(err, c.says)
				x.Empty(x.builds, "a check must not change anything")
				return
			}
			x.NoError(err)
			x.stop()
			x.NoError(p.Start(t.Context(), a))
			x.Len(x.builds, 1)
			x.Equal(c.version, x.builds[0].TemplateVersionID)
			x.Equal(c.sends, x.builds[0].RichParameterValues)
		})
	}
}

// TestCreateWithParameters creates an agent whose template requires a value. One listing of templates is enough.
func TestCreateWithParameters(t *testing.T) {
	t.Parallel()
	x := newVersionedCoder(t)
	p := x.newPlace()
	projects, err := p.Projects(t.Context())
	x.NoError(err)
	x.Equal([]fleet.Parameter{{Name: "region", Type: fleet.ParameterText, Description: "Where it runs", Required: true, Options: []string{"eu", "us"}}}, projects[0].Parameters)
	_, err = p.Roles(t.Context(), "setup")
	x.NoError(err)
	a := x.agent()
	a.WorkspaceID, a.Parameters = "", map[string]string{"region": "eu"}
	_, err = p.Provision(t.Context(), a)
	x.NoError(err)
	x.Contains(x.creations[0].RichParameterValues, codersdk.WorkspaceBuildParameter{Name: "region", Value: "eu"})
	x.Equal(1, x.count("GET templates"))
}

// TestHostFacts checks the links of a workspace, the times at which Coder will act on it, and its role in Coder.
func TestHostFacts(t *testing.T) {
	t.Parallel()
	x := newVersionedCoder(t)
	deadline := time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)
	x.ws.LatestBuild.Deadline = codersdk.NewNullTime(deadline.Add(5*time.Second), true)
	x.ws.DormantAt, x.ws.DeletingAt = new(deadline), new(deadline.Add(time.Hour))
	agent := &x.ws.LatestBuild.Resources[0].Agents[0]
	agent.DisplayApps = []codersdk.DisplayApp{codersdk.DisplayAppWebTerminal, codersdk.DisplayAppVSCodeDesktop, codersdk.DisplayAppPortForward}
	agent.Apps = append(agent.Apps,
		codersdk.WorkspaceApp{Slug: "code-server", DisplayName: "Editor", Subdomain: true, SubdomainName: "code-server--main--agent-papi--fleet"},
		codersdk.WorkspaceApp{Slug: "wiki", External: true, URL: "https://wiki.example.com"},
		codersdk.WorkspaceApp{Slug: "cursor", External: true, URL: "cursor://x?token=$SESSION_TOKEN"},
		codersdk.WorkspaceApp{Slug: "fleet-runner"}, codersdk.WorkspaceApp{Slug: "secret", Hidden: true},
	)
	x.values[0].Value = "manager"
	p := x.newPlace()
	var listed fleet.Workspace
	for range 2 { // the first listing reads the parameters
		all, err := p.List(t.Context())
		x.NoError(err)
		listed = all[0]
	}
	inspected, err := p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	x.Equal("manager", listed.Role)
	x.False(listed.RoleUnknown)
	x.Equal("https://coder.example.com/@fleet/agent-papi", inspected.Location)
	want := fleet.HostFacts{Outdated: true, StopsAt: deadline, DormantAt: deadline, DeletionAt: deadline.Add(time.Hour), Links: []fleet.Link{
		{Name: "Workspace", URL: "https://coder.example.com/@fleet/agent-papi"},
		{Name: "Terminal", URL: "https://coder.example.com/@fleet/agent-papi.main/terminal"},
		{Name: "VS Code", URL: "vscode://coder.coder-remote/open?agent=main&openRecent=true&owner=fleet&url=https%3A%2F%2Fcoder.example.com&workspace=agent-papi"},
		{Name: "agentapi", URL: "https://coder.example.com/@fleet/agent-papi.main/apps/agentapi/"},
		{Name: "Editor", URL: "https://code-server--main--agent-papi--fleet--apps.example.com/"},
		{Name: "wiki", URL: "https://wiki.example.com"},
		{Name: "Port 3000", URL: "https://3000--main--agent-papi--fleet--apps.example.com/"},
		{Name: "Port 8080", URL: "https://8080--main--agent-papi--fleet--apps.example.com/"},
	}}
	x.Equal(want, inspected.Host)
	x.True(want.Equal(listed.Host), "List and Inspect must agree: %v", listed.Host)
}
