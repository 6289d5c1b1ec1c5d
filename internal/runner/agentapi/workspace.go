package agentapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// Workspace is the workspace of an agent, in the state in which it was last read. It is not safe for concurrent use.
type Workspace interface {
	// Facts returns the known facts about the workspace.
	Facts() Facts
	// Refresh reads the workspace again. It returns false if the workspace is gone.
	Refresh(ctx context.Context) (there bool, err error)
	// Spec returns the specification that the agent must get first; empty if its workspace has it.
	Spec(ctx context.Context) (string, error)
	// Translate converts an error of a request to AgentAPI to one of Fleet. what names the operation.
	Translate(what string, err error) error
}

// Find reads and returns the agent's workspace; nil if the agent has none.
type Find func(ctx context.Context) (Workspace, error)

// Facts are a host's facts about a workspace.
type Facts struct {
	URL  *url.URL     // of AgentAPI; nil: the workspace has none now
	HTTP *http.Client // for requests to it. It returns a response of AgentAPI or of a proxy, or an error for Translate

	Offline error  // AGENT_OFFLINE, with the reason; nil: the agent can be reached
	Ended   string // why runs in the workspace have ended; empty: they have not
	Problem string // what is wrong with the workspace; empty: nothing known
	Running bool   // it was started, and is not stopping

	Started time.Time     // its last start, by the host's clock
	Ahead   time.Duration // how far the host's clock is ahead of Fleet's
	Reports []Report      // newest first
}

// Report is a report of an agent about itself to the host.
type Report struct {
	At                time.Time // by the host's clock
	State             string    // "complete", "failure", or another
	Message, Location string    // Location: where to read more
}

// Final reports whether the agent's work is done or has failed.
func (r Report) Final() bool { return r.State == "complete" || r.State == "failure" }

// words formats the report for people.
func (r Report) words() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", r.Message, r.Location))
}

// offline returns the error for an agent that cannot work.
func offline(a fleet.Agent, why string) error {
	return fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q cannot work, %s", a.Name, why)
}

// reach returns a client for a running agent. at is nil if the agent has no workspace.
func (runners *Runners) reach(a fleet.Agent, workspace Workspace) (*client, error) {
	if workspace == nil {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has no workspace", a.Name)
	}
	f := workspace.Facts()
	if f.Offline != nil {
		return nil, f.Offline
	}
	if f.URL == nil {
		return nil, offline(a, "its workspace has no AgentAPI")
	}
	return runners.client(f), nil
}

// restarted reports whether the workspace was started after the run, so that the earlier conversation is lost.
func (f Facts) restarted(r fleet.Run) bool { return f.Started.After(r.Started.Add(f.Ahead)) }

// reported returns the time of the agent's last report.
func (f Facts) reported() time.Time {
	workspace := f.Started
	for _, r := range f.Reports {
		if r.At.After(workspace) {
			workspace = r.At
		}
	}
	return workspace
}

// report returns the agent's report between the times. A zero until means now. It ignores reports of the screen
// watcher, which are empty or repeat the last one.
func (f Facts) report(since, until time.Time) Report {
	var last Report
	found := false
	for _, r := range slices.Backward(f.Reports) {
		if !r.At.After(since) || !until.IsZero() && r.At.After(until) || r.Message == "" {
			continue
		}
		if found && !r.Final() && r.Message == last.Message {
			continue
		}
		last, found = r, true
	}
	return last
}
