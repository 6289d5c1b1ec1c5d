package coder_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// TestListIsolatesProblems makes every request for one part of one of two workspaces fail. List must return both workspaces. The
// workspace without problems must be complete. The other one must have the problem as its reason, and must be completed by a later
// List.
func TestListIsolatesProblems(t *testing.T) {
	t.Parallel()
	badTemplate, badVersion := uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		path   func(bad codersdk.Workspace) string
		status int
	}{
		"parameters of its version, 404": {func(codersdk.Workspace) string { return badVersion.String() + "/rich-parameters" }, 404},
		"parameters of its version, 403": {func(codersdk.Workspace) string { return badVersion.String() + "/rich-parameters" }, 403},
		"presets of its version, 404":    {func(codersdk.Workspace) string { return badVersion.String() + "/presets" }, 404},
		"presets of its version, 500":    {func(codersdk.Workspace) string { return badVersion.String() + "/presets" }, 500},
		"parameters of its build, 404":   {func(ws codersdk.Workspace) string { return ws.LatestBuild.ID.String() + "/parameters" }, 404},
		"parameters of its build, 403":   {func(ws codersdk.Workspace) string { return ws.LatestBuild.ID.String() + "/parameters" }, 403},
		"parameters of its build, 500":   {func(ws codersdk.Workspace) string { return ws.LatestBuild.ID.String() + "/parameters" }, 500},
		"its agent, 401":                 {func(codersdk.Workspace) string { return "/@fleet/agent-sony.main/apps/agentapi/status" }, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFakeCoder(t)
			bad := x.ws
			bad.ID, bad.Name, bad.TemplateID, bad.TemplateName = uuid.New(), "agent-sony", badTemplate, "broken"
			bad.LatestBuild.ID, bad.LatestBuild.TemplateVersionID = uuid.New(), badVersion
			broken := true
			x.fault = func(w http.ResponseWriter, r *http.Request) bool {
				x.mu.Lock()
				fails := broken && strings.HasSuffix(r.URL.Path, c.path(bad))
				x.mu.Unlock()
				switch {
				case fails:
					writeError(w, c.status, "no")
					return true
				case r.URL.Path == "/api/v2/workspaces":
					return writeJSON(w, codersdk.WorkspacesResponse{Workspaces: []codersdk.Workspace{bad, x.ws}, Count: 2})
				case r.URL.Path == "/api/v2/templates":
					return writeJSON(w, []codersdk.Template{{ID: badTemplate, Name: "broken", ActiveVersionID: badVersion}, {ID: templateID, Name: "setup", ActiveVersionID: versionID}})
				case strings.HasSuffix(r.URL.Path, "/parameters"):
					return writeJSON(w, []codersdk.WorkspaceBuildParameter{{Name: "system_prompt", Value: "Be good."}})
				case strings.HasSuffix(r.URL.Path, "/status"):
					return writeJSON(w, map[string]any{"status": "stable", "agent_type": "custom"})
				}
				return false
			}
			p := x.newPlace()
			listByName := func() map[string]fleet.Workspace {
				all, err := p.List(t.Context())
				x.NoError(err)
				x.Len(all, 2)
				return map[string]fleet.Workspace{all[0].Name: all[0], all[1].Name: all[1]}
			}
			listed := listByName()
			good, affected := listed["papi"], listed["sony"]
			x.Equal("Coder", good.Role)
			x.Empty(good.Reason)
			x.Equal(fleet.StateRunning, good.State)
			x.Equal(bad.ID.String(), affected.ID)
			x.Contains(affected.Reason, "failed: ")
			agentFails := c.status == 401
			x.Equal(agentFails, affected.Role != "")

			tries := x.count("GET parameters") + x.count("GET presets") + x.count("GET rich-parameters")
			listByName()
			x.Equal(tries, x.count("GET parameters")+x.count("GET presets")+x.count("GET rich-parameters"), "the missing part must not be requested again in every List")

			x.mu.Lock()
			broken = false
			x.mu.Unlock()
			x.clockOffset.Add(int64(time.Minute))
			affected = listByName()["sony"]
			x.Equal("Coder", affected.Role)
			x.Empty(affected.Reason)
		})
	}
}

// TestIdle lists a hundred idle agents for ten minutes. After the metadata of each agent were read once, a minute of listings must
// cost only a few requests, and must still read the metadata of some agents again.
func TestIdle(t *testing.T) {
	x := newFakeCoder(t)
	x.addRunner()
	runnerFault := x.fault
	var all []codersdk.Workspace
	for range 100 {
		ws := x.ws
		ws.ID, ws.LatestBuild.ID, ws.Name = uuid.New(), uuid.New(), fmt.Sprintf("agent-idle-%d", len(all))
		all = append(all, ws)
	}
	requests, metadata := 0, 0
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		x.update(func() {
			requests++
			if strings.HasSuffix(r.URL.Path, "/watch-metadata") {
				metadata++
			}
		})
		switch {
		case r.URL.Path == "/api/v2/workspaces":
			return writeJSON(w, codersdk.WorkspacesResponse{Workspaces: all, Count: len(all)})
		case strings.HasSuffix(r.URL.Path, "/parameters"):
			return writeJSON(w, []codersdk.WorkspaceBuildParameter{})
		case strings.HasSuffix(r.URL.Path, "/watch-metadata"):
			_, _ = io.WriteString(w, "event: data\ndata: []\n\n")
		default:
			return runnerFault(w, r)
		}
		return true
	}
	p := x.newPlace()
	listForMinute := func() int {
		x.update(func() { requests, metadata = 0, 0 })
		for range 20 {
			x.clockOffset.Add(int64(3 * time.Second))
			list, err := p.List(t.Context())
			x.NoError(err)
			x.Len(list, 100)
		}
		return requests
	}
	least := listForMinute()
	for range 9 { // in the first minutes, the metadata of each agent are read for the first time
		least = min(least, listForMinute())
	}
	x.LessOrEqual(least, 25)
	x.Positive(metadata)
}
