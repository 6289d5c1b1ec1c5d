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

// Workspace is the workspace of an agent, as its host saw it when it was last read. One goroutine uses it at a time.
type Workspace interface {
	// Facts returns what is known of the workspace.
	Facts() Facts
	// Refresh reads the workspace again; false means that it is gone.
	Refresh(ctx context.Context) (there bool, err error)
	// Spec returns the specification that the agent must be told first; empty when its workspace has it.
	Spec(ctx context.Context) (string, error)
	// Translate makes an error of a request to AgentAPI one of Fleet. what says in words what was wanted.
	Translate(what string, err error) error
}

// Find returns the agent's workspace, read just now; nil when the agent has none.
type Find func(ctx context.Context) (Workspace, error)

// Facts are what a host knows of a workspace.
type Facts struct {
	URL  *url.URL     // of AgentAPI; nil: the workspace has none now
	HTTP *http.Client // carries requests to it. It returns an answer of AgentAPI or of a proxy, or an error for Translate

	Offline error  // AGENT_OFFLINE, why the agent cannot be reached; nil: it can
	Ended   string // why runs in the workspace have ended; empty: they go on
	Problem string // what is wrong with the workspace, in words; empty: nothing is known
	Running bool   // it was started, and is not being stopped

	Started time.Time     // when it was started last, by the host's clock
	Ahead   time.Duration // how far the host's clock is ahead of Fleet's
	Reports []Report      // newest first
}

// Report is what an agent has told the host about itself.
type Report struct {
	At                time.Time // by the host's clock
	State             string    // "complete", "failure", or another
	Message, Location string    // Location: where to see more
}

// Final says that the agent's work is done, or has failed.
func (r Report) Final() bool { return r.State == "complete" || r.State == "failure" }

// words are the report for people.
func (r Report) words() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", r.Message, r.Location))
}

// offline says why an agent cannot work.
func offline(a fleet.Agent, why string) error {
	return fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q cannot work, %s", a.Name, why)
}

// reach returns the AgentAPI of an agent that runs. at is nil when the agent has no workspace.
func (all *Runners) reach(a fleet.Agent, at Workspace) (*client, error) {
	if at == nil {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has no workspace", a.Name)
	}
	f := at.Facts()
	if f.Offline != nil {
		return nil, f.Offline
	}
	if f.URL == nil {
		return nil, offline(a, "its workspace has no AgentAPI")
	}
	return all.client(f), nil
}

// restarted reports whether the workspace was started after the run was: what was said before is not known any more.
func (f Facts) restarted(r fleet.Run) bool { return f.Started.After(r.Started.Add(f.Ahead)) }

// reported is when the agent reported last.
func (f Facts) reported() time.Time {
	at := f.Started
	for _, r := range f.Reports {
		if r.At.After(at) {
			at = r.At
		}
	}
	return at
}

// report returns what the agent has reported between the times; an until of zero means now. A watcher of the agent's
// screen reports too, without words, or repeating the last ones: that is no report of the agent's own.
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
