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

// Log implements fleet.Place. It returns the log of the latest build, followed by the log of the workspace's agent.
func (p *Place) Log(ctx context.Context, a fleet.Agent, n int) ([]string, bool, error) {
	at, err := p.find(ctx, a)
	if err != nil || at == nil {
		return nil, false, err
	}
	lines, err := buildLog(ctx, at)
	if err != nil {
		return nil, false, err
	}
	if agent, _ := at.agent(); agent != nil {
		more, err := agentLog(ctx, at, agent)
		if err != nil {
			return nil, false, err
		}
		lines = append(lines, more...)
	}
	if at.ws.LatestBuild.Job.Error != "" {
		lines = append(lines, "error: "+plain(at.ws.LatestBuild.Job.Error))
	}
	if len(lines) <= n {
		return lines, false, nil
	}
	return lines[len(lines)-n:], true, nil
}

func buildLog(ctx context.Context, at *workspace) ([]string, error) {
	entries, err := readLog[codersdk.ProvisionerJobLog](ctx, at, fmt.Sprintf("/api/v2/workspacebuilds/%s/logs", at.ws.LatestBuild.ID))
	var lines []string
	for _, e := range entries {
		if e.Output != "" {
			lines = append(lines, logLines(e.Stage, e.Output)...)
		}
	}
	return lines, err
}

func agentLog(ctx context.Context, at *workspace, agent *codersdk.WorkspaceAgent) ([]string, error) {
	sources := map[string]string{}
	for _, s := range agent.LogSources {
		sources[s.ID.String()] = s.DisplayName
	}
	entries, err := readLog[codersdk.WorkspaceAgentLog](ctx, at, fmt.Sprintf("/api/v2/workspaceagents/%s/logs", agent.ID))
	var lines []string
	for _, e := range entries {
		lines = append(lines, logLines(sources[e.SourceID.String()], e.Output)...)
	}
	return lines, err
}

// escapes matches terminal escape sequences.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])`)

// visible is a mapping for strings.Map that drops control characters except tabs.
func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\t' {
		return -1
	}
	return r
}

// logLines splits a log entry into lines. It adds the source before each line, and removes escape sequences.
func logLines(source, text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.Map(visible, escapes.ReplaceAllString(line, "")), " \t\r\n")
		if source != "" {
			line = source + ": " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// readLog reads the entries that a log has now.
func readLog[T any](ctx context.Context, at *workspace, path string) ([]T, error) {
	return ask(ctx, "reading the log of "+at.ws.Name, func(ctx context.Context) ([]T, error) {
		res, err := at.account.sdk.Request(ctx, http.MethodGet, path, nil)
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
