package fleet

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// State says what an agent's workspace is doing. docs/states.md draws it.
type State string

// The states of a workspace.
const (
	StatePending   State = "pending"
	StateStarting  State = "starting"
	StateRunning   State = "running"
	StateStopping  State = "stopping"
	StateStopped   State = "stopped"
	StateFailed    State = "failed"
	StateCanceling State = "canceling"
	StateCanceled  State = "canceled"
	StateDeleting  State = "deleting"
	StateDeleted   State = "deleted"
	StateUnhealthy State = "unhealthy"
)

// States lists every state.
var States = []State{
	StatePending, StateStarting, StateRunning, StateStopping, StateStopped, StateFailed,
	StateCanceling, StateCanceled, StateDeleting, StateDeleted, StateUnhealthy,
}

// Moving says whether the state is on its way to another one by itself.
func (s State) Moving() bool {
	switch s {
	case StatePending, StateStarting, StateStopping, StateCanceling, StateDeleting:
		return true
	}
	return false
}

// Desired says what an agent's owner wants its workspace to do.
type Desired string

// What can be wanted of a workspace.
const (
	DesiredRunning Desired = "running"
	DesiredStopped Desired = "stopped"
	DesiredDeleted Desired = "deleted"
)

// Status says whether an agent can take a task. It is computed, see StatusOf.
type Status string

// The statuses of an agent.
const (
	StatusBusy    Status = "busy"
	StatusIdle    Status = "idle"
	StatusOffline Status = "offline"
)

// Agent is a long-lived named worker in a workspace.
type Agent struct {
	UID         string // never used again, also not by a later agent of the same name
	Name        string
	Owner       string // name of the principal
	Project     string
	Role        string
	Spec        string
	Toolset     Toolset // which toolset it belongs to
	Backend     string  // what hosts it; empty: the default backend
	Recipe      *Recipe // how it is made, when no project says it; never changed
	OneTask     bool    // it goes when its task has ended
	WorkspaceID string  // the backend's id; empty until it has given one
	Location    string  // where it works, for people
	Metadata    map[string]string

	State       State
	StateReason string // why, in words
	Desired     Desired
	// Restart counts the restarts that were asked for, Restarted those that were done.
	Restart, Restarted int
	// Attempts counts the tries to reach Desired that failed in a row; RetryAt is when the next one is due.
	Attempts int
	RetryAt  time.Time

	// Refused is why the host refused to make the agent, and RefusedField the field that is to blame; empty: it did not.
	// StateReason has the words.
	Refused      Reason
	RefusedField string

	Revision  int64 // grows with every write of the row; the store sets it
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt time.Time // zero: exists
}

// Settled says whether there is nothing to do to the agent's workspace.
func (a *Agent) Settled() bool {
	switch a.Desired {
	case DesiredDeleted:
		return a.State == StateDeleted
	case DesiredStopped:
		return a.State == StateStopped || a.State == StateFailed || a.State == StateCanceled
	}
	return a.Restart == a.Restarted &&
		(a.State == StateRunning || a.State == StateFailed || a.State == StateCanceled || a.State == StateUnhealthy || a.State == StateStopped)
}

// AgentView is an agent with what it works on: a row of the fleet's snapshot.
type AgentView struct {
	Agent
	Task *Task // its pending or running task; nil when it has none
}

// Status says whether the agent can take a task. It follows from the state and the task and so cannot disagree with
// either.
func (v *AgentView) Status() Status {
	switch {
	case v.State != StateRunning || v.Desired != DesiredRunning || v.Restart != v.Restarted:
		return StatusOffline
	case v.Task != nil:
		return StatusBusy
	}
	return StatusIdle
}

// Waiting says whether the agent waits for an answer to a question.
func (v *AgentView) Waiting() bool { return v.Task != nil && v.Task.Waiting > 0 }

// Stalled says whether the run of the agent's task makes no progress.
func (v *AgentView) Stalled() bool { return v.Task != nil && v.Task.Stalled() }

// MaxNameLength is the longest name of an agent, in characters.
const MaxNameLength = 20

var namePattern = regexp.MustCompile(`^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$`)

// ValidateName checks the name of an agent to be created: Coder's own rule for workspaces.
func ValidateName(name string) error {
	const rule = "use 1 to 20 letters, digits and single hyphens between them, e.g. \"papi\" or \"web-2\""
	switch {
	case name == "":
		return Invalid(ReasonInvalidName, "name", "the agent needs a name: %s", rule)
	case len([]rune(name)) > MaxNameLength:
		return Invalid(ReasonInvalidName, "name", "the agent's name %q is %d characters long: %s", shorten(name, 40), len([]rune(name)), rule)
	case !namePattern.MatchString(name):
		return Invalid(ReasonInvalidName, "name", "the agent's name %q has characters or hyphens in places it must not: %s", name, rule)
	}
	return nil
}

// ParseAgentRef splits the name of an agent as a caller writes it: "papi", or "papi@alice" for alice's.
func ParseAgentRef(s string) (name, owner string) {
	name, owner, _ = strings.Cut(s, "@")
	return name, owner
}

// shorten returns the first n characters of s, with an ellipsis where there were more.
func shorten(s string, n int) string {
	r := []rune(s[:min(len(s), (n+1)*utf8.UTFMax)])
	if len(r) <= n {
		return s
	}
	return strings.TrimSpace(string(r[:n-1])) + "…"
}
