package fleet

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// State is the state of an agent's workspace. docs/use/states.md shows the transitions.
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

// Moving reports whether the state changes to another one by itself.
func (s State) Moving() bool {
	switch s {
	case StatePending, StateStarting, StateStopping, StateCanceling, StateDeleting:
		return true
	}
	return false
}

// DesiredState is the state that an agent's owner wants its workspace to have.
type DesiredState string

// These are the desired states.
const (
	DesiredRunning DesiredState = "running"
	DesiredStopped DesiredState = "stopped"
	DesiredDeleted DesiredState = "deleted"
)

// Status says whether an agent can take a task. It is computed, never stored.
type Status string

// The statuses of an agent.
const (
	StatusBusy    Status = "busy"
	StatusIdle    Status = "idle"
	StatusOffline Status = "offline"
)

// Agent is a long-lived named worker in a workspace.
type Agent struct {
	UID             string // never reused, not even by a later agent with the same name
	Name            string
	Owner           string // name of the principal
	Project         string
	Role            string
	Spec            string
	Toolset         Toolset      // the toolset that it belongs to
	Place           string       // name of the place where it lives; never changes
	Config          *AgentConfig // its configuration, in addition to a project or in place of one; nil if it has none; never changes
	OneTask         bool         // it is deleted when its task has ended
	HasConversation bool         // it has a conversation that its next task continues
	// Conversation is the name of this conversation, see Run.Conversation.
	Conversation string
	SessionID    string // the conversation's id, as the agent's program knows it; empty if it is not known
	WorkspaceID  string // the place's id of the workspace; empty until the workspace exists
	Location     string // where it works, for people
	Metadata     map[string]string
	// Parameters are the values of Project.Parameters that the caller has chosen; nil if there are none.
	Parameters map[string]string
	Host       HostFacts
	Labels     Labels
	Pool       string        // the pool that it was made for; empty if somebody created it
	MaxIdle    time.Duration // it is deleted when it has had no task for this time; 0: never
	Rules      []AllowedRule // what people have allowed it, see Question.Rules
	Shares     []Share       // kept after the agent's deletion; nil if it is not shared

	State       State
	StateReason string // for people
	Desired     DesiredState
	// RestartsRequested counts the requested restarts, RestartsDone the completed ones.
	RestartsRequested, RestartsDone int
	// Next lists the changes that the next start makes to the workspace.
	Next NextStart
	// Attempts counts the consecutive failed attempts to reach Desired; RetryAt is when the next one is due.
	Attempts int
	RetryAt  time.Time

	// RefusalReason is the reason why the place refused to create the agent, and RefusalField the request field at fault;
	// both are empty otherwise. StateReason has the message.
	RefusalReason Reason
	RefusalField  string

	Trace string // W3C traceparent of the last call that changed Desired, RestartsRequested or Next; empty if that call was not traced

	Revision  int64 // incremented by every write; set by the store
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt time.Time // zero if it exists
}

// HasOneRun reports whether the agent gets a single task that is not queued. Agents of pools get queued tasks, which may have several tries.
func (a *Agent) HasOneRun() bool { return a.OneTask && a.Pool == "" }

// NextStart lists the changes that the next start makes to an agent's workspace. The zero value changes nothing.
type NextStart struct {
	Role       bool `json:"role,omitempty"`       // the workspace gets Agent.Role
	Parameters bool `json:"parameters,omitempty"` // the workspace gets Agent.Parameters
	Update     bool `json:"update,omitempty"`     // the workspace gets the newest version of its project
	TakeOver   bool `json:"take_over,omitempty"`  // the workspace becomes this Fleet's
}

// HostFacts are what a place reports about an agent's workspace in addition to its state. A place that does not know a
// fact leaves it empty.
type HostFacts struct {
	Links      []Link    `json:"links,omitempty"`
	Outdated   bool      `json:"outdated,omitempty"`   // the project has a newer version than the workspace
	StopsAt    time.Time `json:"stops_at,omitzero"`    // when the host stops the workspace
	DormantAt  time.Time `json:"dormant_at,omitzero"`  // when the workspace became dormant, because nobody used it
	DeletionAt time.Time `json:"deletion_at,omitzero"` // when the host deletes the dormant workspace
	// ForeignOwner says, for people, who owns the workspace if it does not belong to this Fleet: another Fleet, or a person. Fleet
	// does nothing to such a workspace before it is taken over (NextStart.TakeOver).
	ForeignOwner string `json:"other_fleet,omitempty"`
	// ClosedReason says why the agent accepts no tasks although its workspace may run, for example because its project is no longer
	// configured; empty if it accepts tasks. A task that has begun is not affected.
	ClosedReason string `json:"closed,omitempty"`
	// Credential names the key or the subscription with which the agent uses its model; empty if that is not known.
	Credential string `json:"credential,omitempty"`
	// Adopted means that the workspace was found at its host. Only the core sets it.
	Adopted bool `json:"adopted,omitempty"`
	// MissingSince is when the host stopped showing the workspace (Workspace.Missing). Only the core sets it.
	MissingSince time.Time `json:"missing_since,omitzero"`
}

// IsZero reports whether nothing is known.
func (h HostFacts) IsZero() bool { return h.Equal(HostFacts{}) }

// Equal reports whether the facts are the same.
func (h HostFacts) Equal(o HostFacts) bool {
	return slices.Equal(h.Links, o.Links) && h.Outdated == o.Outdated && h.StopsAt.Equal(o.StopsAt) &&
		h.DormantAt.Equal(o.DormantAt) && h.DeletionAt.Equal(o.DeletionAt) && h.ForeignOwner == o.ForeignOwner && h.ClosedReason == o.ClosedReason && h.Credential == o.Credential && h.Adopted == o.Adopted &&
		h.MissingSince.Equal(o.MissingSince)
}

// Link is an address at which people can open a part of an agent's workspace.
type Link struct {
	Name string `json:"name"` // for people, such as "Workspace" or "code-server"
	URL  string `json:"url"`
}

// Foreign reports whether the agent's workspace belongs to another Fleet or to a person, and is not being taken over.
func (a *Agent) Foreign() bool { return a.Host.ForeignOwner != "" && !a.Next.TakeOver }

// Settled reports whether the agent's workspace has reached the desired state, or has failed to reach it. An agent that is to
// be deleted is settled only when its workspace is deleted. A foreign workspace has no desired state, and is settled unless its
// state is Moving. A workspace that is to run also counts as settled if it is stopped or unhealthy and no restart is due.
func (a *Agent) Settled() bool {
	switch {
	case a.Desired == DesiredDeleted:
		return a.State == StateDeleted
	case a.Foreign():
		return !a.State.Moving()
	}
	switch a.Desired {
	case DesiredStopped:
		return a.State == StateStopped || a.State == StateFailed || a.State == StateCanceled
	}
	return a.RestartsRequested == a.RestartsDone &&
		(a.State == StateRunning || a.State == StateFailed || a.State == StateCanceled || a.State == StateUnhealthy || a.State == StateStopped)
}

// AgentView is an agent with its running task: a row of the fleet's snapshot.
type AgentView struct {
	Agent
	// Task is its running task; nil if it has none. Only AgentsByUID and a repeated Launch of package service also return an
	// ended one.
	Task *Task
	// Checks are the checks of an ended Task, with short outputs. Only AgentsByUID sets them.
	Checks *TaskChecks
}

// Status returns whether the agent can take a task. It is derived from the state and the task.
func (v *AgentView) Status() Status {
	switch {
	case v.State != StateRunning || v.Desired != DesiredRunning || v.RestartsRequested != v.RestartsDone:
		return StatusOffline
	case v.Task != nil:
		return StatusBusy
	case v.Host.ClosedReason != "":
		return StatusOffline
	}
	return StatusIdle
}

// AllowedRulesIn returns the rules that hold in the agent's task with the id.
func (a *Agent) AllowedRulesIn(taskID string) (rules []AllowedRule) {
	for _, r := range a.Rules {
		if r.TaskID == "" || r.TaskID == taskID {
			rules = append(rules, r)
		}
	}
	return rules
}

// AllowedRules returns the rules that hold now: those of the agent's Task, and those of every task.
func (v *AgentView) AllowedRules() []AllowedRule {
	if v.Task == nil {
		return v.AllowedRulesIn("")
	}
	return v.AllowedRulesIn(v.Task.ID)
}

// Waiting reports whether the agent waits for an answer to a question.
func (v *AgentView) Waiting() bool { return v.Task != nil && v.Task.OpenQuestions > 0 }

// Stalled reports whether the run of the agent's task makes no progress.
func (v *AgentView) Stalled() bool { return v.Task != nil && v.Task.Stalled() }

// Collecting reports whether the run of the agent's task has ended, and Fleet still collects its work.
func (v *AgentView) Collecting() bool { return v.Task != nil && v.Task.Collecting() }

// MaxAgentNameLength is the maximum length of an agent's name, in characters.
const MaxAgentNameLength = 20

var namePattern = regexp.MustCompile(`^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$`)

// ValidateAgentName checks the name of a new agent. A valid name is also valid as the name of a Coder workspace.
func ValidateAgentName(name string) error {
	const rule = "use 1 to 20 letters, digits and single hyphens between them, e.g. \"papi\" or \"web-2\""
	switch {
	case name == "":
		return Invalid(ReasonInvalidName, "name", "the agent needs a name: %s", rule)
	case len([]rune(name)) > MaxAgentNameLength:
		return Invalid(ReasonInvalidName, "name", "the agent's name %q is %d characters long: %s", Shorten(name, 40), len([]rune(name)), rule)
	case !namePattern.MatchString(name):
		return Invalid(ReasonInvalidName, "name", "the agent's name %q has characters that it must not have, or hyphens in the wrong places: %s", name, rule)
	}
	return nil
}

// SplitOwnedRef splits a caller's reference to something that has an owner: "papi", or "papi@alice" for alice's agent. owner is empty
// if the reference has none.
func SplitOwnedRef(s string) (name, owner string) {
	name, owner, _ = strings.Cut(s, "@")
	return name, owner
}

// Event returns an event about the agent.
func (a *Agent) Event(t EventType, now time.Time, text string) *Event {
	return &Event{
		Time: now, Type: t, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Text: text, Status: string(a.State),
	}
}

// AgentNotFound returns the error for a name that no agent visible to the caller has.
func AgentNotFound(name string) *Error {
	return Errorf(ReasonAgentNotFound, "agent %q not found", Shorten(name, 60)).With("agent_name", Shorten(name, 60)).
		Next("{list_agents} shows the existing agents")
}
