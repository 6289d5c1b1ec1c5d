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
	// Facts returns the facts about the workspace when it was last read.
	Facts() Facts
	// Refresh reads the workspace again. It returns false if the workspace no longer exists.
	Refresh(ctx context.Context) (exists bool, err error)
	// Spec returns the specification that the agent must get with its first message. It returns an empty string if the
	// workspace already has the specification.
	Spec(ctx context.Context) (string, error)
	// Translate converts an error of a request to AgentAPI to one of Fleet. The parameter what names the operation.
	Translate(what string, err error) error
}

// FindWorkspace reads and returns the agent's workspace. It returns nil if the agent has no workspace.
type FindWorkspace func(ctx context.Context) (Workspace, error)

// Facts are what a host knows about a workspace.
type Facts struct {
	URL  *url.URL     // URL of AgentAPI; nil if the workspace has no AgentAPI now
	HTTP *http.Client // for requests to URL; it returns a response of AgentAPI or of a proxy, or an error for Translate

	OfflineErr error  // AGENT_OFFLINE, with the reason; nil if the agent can be reached
	EndReason  string // why runs in the workspace have ended; empty if they have not
	Problem    string // what is wrong with the workspace; empty if no problem is known
	Running    bool   // the workspace was started, and is not stopping

	Started   time.Time     // when the workspace was last started, by the host's clock
	ClockSkew time.Duration // how far the host's clock is ahead of Fleet's clock
	Reports   []Report      // newest first
}

// Report is a report of an agent about itself to the host.
type Report struct {
	At                time.Time // by the host's clock
	State             string    // "complete", "failure", or another text
	Message, Location string    // Location: where to read more
}

// IsFinal reports whether the report says that the agent's work is done or has failed.
func (r Report) IsFinal() bool { return r.State == "complete" || r.State == "failure" }

// text returns the report's text, for users.
func (r Report) text() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", r.Message, r.Location))
}

// offlineError returns the error for an agent that cannot work.
func offlineError(a fleet.Agent, why string) error {
	return fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q cannot work, %s", a.Name, why)
}

// reachableClient returns a client for the AgentAPI of the workspace. It returns AGENT_OFFLINE if the agent cannot be reached.
// workspace is nil if the agent has no workspace.
func (runners *Runners) reachableClient(a fleet.Agent, workspace Workspace) (*client, error) {
	if workspace == nil {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has no workspace", a.Name)
	}
	f := workspace.Facts()
	if f.OfflineErr != nil {
		return nil, f.OfflineErr
	}
	if f.URL == nil {
		return nil, offlineError(a, "its workspace has no AgentAPI")
	}
	return runners.client(f), nil
}

// restarted reports whether the workspace was started after the run had started. Then the conversation is lost.
func (f Facts) restarted(r fleet.Run) bool { return f.Started.After(r.StartedAt.Add(f.ClockSkew)) }

// lastReportTime returns the time of the agent's last report, or of the workspace's start if that is later.
func (f Facts) lastReportTime() time.Time {
	last := f.Started
	for _, r := range f.Reports {
		if r.At.After(last) {
			last = r.At
		}
	}
	return last
}

// report returns the agent's last report after since and not after until, or a zero Report if there is none. If until is zero,
// there is no upper limit. report ignores the reports of the screen watcher, which are empty or repeat the previous report.
func (f Facts) report(since, until time.Time) Report {
	var last Report
	found := false
	for _, r := range slices.Backward(f.Reports) {
		if !r.At.After(since) || !until.IsZero() && r.At.After(until) || r.Message == "" {
			continue
		}
		if found && !r.IsFinal() && r.Message == last.Message {
			continue
		}
		last, found = r, true
	}
	return last
}
