package coder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// Log implements fleet.Place. It returns the log of the latest build, the log of the workspace's agent, and the error of
// the build, if there is one. It returns no lines if the agent has no workspace.
func (p *Place) Log(ctx context.Context, a fleet.Agent, n int) ([]string, bool, error) {
	w, err := p.find(ctx, a)
	if err != nil || w == nil {
		return nil, false, err
	}
	lines, err := buildLog(ctx, w)
	if err != nil {
		return nil, false, err
	}
	if agent, _ := w.appAgent(); agent != nil {
		agentLines, err := agentLog(ctx, w, agent)
		if err != nil {
			return nil, false, err
		}
		lines = append(lines, agentLines...)
	}
	if w.ws.LatestBuild.Job.Error != "" {
		lines = append(lines, "error: "+shortLine(w.ws.LatestBuild.Job.Error))
	}
	if len(lines) <= n {
		return lines, false, nil
	}
	return lines[len(lines)-n:], true, nil
}

func buildLog(ctx context.Context, w *workspace) ([]string, error) {
	entries, err := readLog[codersdk.ProvisionerJobLog](ctx, w, fmt.Sprintf("/api/v2/workspacebuilds/%s/logs", w.ws.LatestBuild.ID))
	var lines []string
	for _, e := range entries {
		if e.Output != "" {
			lines = append(lines, logLines(e.Stage, e.Output)...)
		}
	}
	return lines, err
}

func agentLog(ctx context.Context, w *workspace, agent *codersdk.WorkspaceAgent) ([]string, error) {
	sources := map[string]string{}
	for _, s := range agent.LogSources {
		sources[s.ID.String()] = s.DisplayName
	}
	entries, err := readLog[codersdk.WorkspaceAgentLog](ctx, w, fmt.Sprintf("/api/v2/workspaceagents/%s/logs", agent.ID))
	var lines []string
	for _, e := range entries {
		lines = append(lines, logLines(sources[e.SourceID.String()], e.Output)...)
	}
	return lines, err
}

// escapePattern matches terminal escape sequences.
var escapePattern = regexp.MustCompile(`\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])`)

// dropControl is a mapping for strings.Map that drops control characters except tabs.
func dropControl(r rune) rune {
	if unicode.IsControl(r) && r != '\t' {
		return -1
	}
	return r
}

// logLines splits a log entry into lines. It adds the source, if there is one, before each line, and removes escape sequences and
// control characters.
func logLines(source, text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.Map(dropControl, escapePattern.ReplaceAllString(line, "")), " \t\r\n")
		if source != "" {
			line = source + ": " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// readLog reads the current entries of a log.
func readLog[T any](ctx context.Context, w *workspace, path string) ([]T, error) {
	return callCoder(ctx, "reading the log of "+w.ws.Name, func(ctx context.Context) ([]T, error) {
		res, err := w.account.sdk.Request(ctx, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		if res.StatusCode != http.StatusOK {
			return nil, codersdk.ReadBodyAsError(res)
		}
		defer drain(res.Body)
		var entries []T
		return entries, json.NewDecoder(res.Body).Decode(&entries)
	})
}
