package fleet

import (
	"cmp"
	"slices"
	"time"
)

// QueueEntry says where, when and how a pending task starts. The task keeps it after the start.
type QueueEntry struct {
	Target       Target       `json:"target,omitzero"` // where it runs; zero if it was queued for one agent
	Priority     int          `json:"priority,omitempty"`
	NotBefore    time.Time    `json:"not_before,omitzero"`
	Expires      time.Time    `json:"expires,omitzero"`  // when the task is stopped if it has not started; zero: never
	HeldBy       string       `json:"held_by,omitempty"` // name of the principal who has put it on hold; empty if it is not held
	HeldAt       time.Time    `json:"held_at,omitzero"`
	ExclusiveKey string       `json:"exclusive,omitempty"` // at most one task with this key runs; empty: no such limit
	Dependencies []Dependency `json:"after,omitempty"`
	// MaxAttempts is how many attempts the task has in all, without those that failed for a reason that does not count (see RetryClass);
	// 0 stands for DefaultAttempts. Attempts are the failed attempts after which the task was queued again. RetryAt is when the next
	// attempt may begin.
	MaxAttempts     int       `json:"max_attempts,omitempty"`
	Attempts        []Attempt `json:"attempts,omitempty"`
	RetryAt         time.Time `json:"retry_at,omitzero"`
	StartedDirectly bool      `json:"direct,omitempty"` // it was started at once, so only a budget makes it wait
	// FanOut has the ids of the tasks that were queued with the same prompt, including this one. Each of them needs an agent that
	// has worked on none of the others. Kept means that people have chosen the work of this task.
	FanOut []string `json:"fan_out,omitempty"`
	Kept   bool     `json:"kept,omitempty"`
	// By, Kind and Scope describe the principal that queued the task. The task starts on behalf of this principal.
	By    string        `json:"by"`
	Kind  PrincipalKind `json:"kind"`
	Scope Scope         `json:"scope"`
	// UnconfinedIn is Principal.UnconfinedIn.
	UnconfinedIn string `json:"unconfined_in,omitempty"`
}

// SameConditions reports whether both entries agree in everything that decides whether the task may start and whether it has expired.
func (e *QueueEntry) SameConditions(o *QueueEntry) bool {
	return e.NotBefore.Equal(o.NotBefore) && e.Expires.Equal(o.Expires) && e.RetryAt.Equal(o.RetryAt) && e.HeldBy == o.HeldBy && e.ExclusiveKey == o.ExclusiveKey && slices.Equal(e.Dependencies, o.Dependencies)
}

// DependeeIDs returns the ids of the tasks that determine when and where the task starts. A task of a fan-out is itself among them.
func (e *QueueEntry) DependeeIDs() []string {
	ids := slices.Clone(e.FanOut)
	for _, d := range e.Dependencies {
		ids = append(ids, d.TaskID)
	}
	return ids
}

// Target is where a queued task may run: on the agents of a pool, or on the owner's agents with a role in a project.
type Target struct {
	Pool string `json:"pool,omitempty"` // name of the pool; the other fields are then its project and role
	ProjectRole
}

// ProjectRole is a role in a project of a place.
type ProjectRole struct {
	Place   string `json:"place,omitempty"`
	Project string `json:"project,omitempty"`
	Role    string `json:"role,omitempty"`
}

// Matches reports whether the agent has the role.
func (r ProjectRole) Matches(a *Agent) bool {
	return a.Place == r.Place && a.Project == r.Project && a.Role == r.Role
}

// Takes reports whether a task of the owner with the target may run on the agent. A task for a role does not run on an agent that was
// made for one queued task.
func (t Target) Takes(owner string, a *Agent) bool {
	if a.Owner != owner || a.Toolset != ToolsetFleet || a.Pool != t.Pool {
		return false
	}
	return t.Pool != "" || t.Matches(a) && a.MaxIdle == 0
}

// String names the target for people.
func (t Target) String() string {
	if t.Pool != "" {
		return "pool " + t.Pool
	}
	return t.Project + "/" + t.Role
}

// Dependency is a task that must end before another one starts.
type Dependency struct {
	TaskID string `json:"task_id"`
	AnyEnd bool   `json:"ended,omitempty"`  // the other task may end in any way; otherwise it must complete
	Result bool   `json:"result,omitempty"` // its summary and branch are added to the prompt
}

// RequiredEnd returns the word for how the other task must have ended, for a sentence such as: when it has completed.
func (d Dependency) RequiredEnd() string {
	if d.AnyEnd {
		return "ended"
	}
	return "completed"
}

// Attempt is a failed attempt of a queued task that is tried again.
type Attempt struct {
	Try    int        `json:"try"` // Task.Try of the attempt
	At     time.Time  `json:"at"`  // when it failed
	Code   ReasonCode `json:"code"`
	Reason string     `json:"reason"`
}

// Limits of the queue.
const (
	MaxAttempts         = 5
	DefaultAttempts     = 3
	maxRecordedAttempts = 100 // failed attempts after which even a failure that does not count is not retried
	MaxPriority         = 100 // and at least -MaxPriority
	MaxDependencies     = 64
	MaxExclusiveKey     = 200    // characters
	MaxPending          = 10_000 // pending tasks of a principal
	MaxFanOut           = 16     // tasks that are queued with the same prompt
)

// DefaultAgeStep is how long a pending task waits until it counts as one priority higher.
const DefaultAgeStep = time.Minute

// RecordFailure records a failed attempt, and sets RetryAt. It returns false, and records nothing, if there are no further attempts.
// until is the earliest time for the next attempt, if the failure names one; it counts for at most maxWindowLength. jitter, from 0 to 1,
// adds up to a quarter of the wait.
func (e *QueueEntry) RecordFailure(a Attempt, until time.Time, jitter float64) bool {
	counted := 1
	for _, old := range e.Attempts {
		if old.Code.counts() {
			counted++
		}
	}
	wait := time.Minute
	switch a.Code.Retry() {
	case RetryNever:
		return false
	case RetryWaits, RetryHeld:
		if len(e.Attempts) >= maxRecordedAttempts {
			return false
		}
	default:
		if counted >= cmp.Or(e.MaxAttempts, DefaultAttempts) {
			return false
		}
		wait = retryBackoff << (counted - 1)
	}
	e.Attempts = append(e.Attempts, a)
	if until.Before(a.At) {
		until = a.At.Add(wait)
	}
	if limit := a.At.Add(maxWindowLength); until.After(limit) {
		until = limit
	}
	e.RetryAt = until.Add(time.Duration(jitter * float64(wait) / 4))
	return true
}

// retryBackoff is how long the first retry waits. The wait doubles with each further retry.
const retryBackoff = 10 * time.Second

// Rank is the priority of a pending task, plus one for each step that it has waited.
func (e *QueueEntry) Rank(created, now time.Time, step time.Duration) int {
	return e.Priority + int(max(0, now.Sub(created))/step)
}

// QueuedTask is a task with its entry in the queue.
type QueuedTask struct {
	Task
	Entry QueueEntry
}

// Dependee is a task that others depend on. Its zero value stands for a deleted task.
type Dependee struct {
	Status   TaskStatus
	Name     string // for people
	AgentUID string
}

// QueueFilter selects tasks that have an entry in the queue and have not ended: those with the ids, or all. The zero value selects none.
type QueueFilter struct {
	TaskIDs      []string
	IncludeEnded bool // with TaskIDs: also those that have ended
	All          bool
}

// WaitReason is a reason why a task is pending.
type WaitReason string

// The reasons. In these comments, the agent is the one on which the task would run.
const (
	WaitHeld             WaitReason = "held"              // somebody has put the task on hold, or paused the fleet
	WaitNotBefore        WaitReason = "not_before"        // QueueEntry.NotBefore has not come
	WaitDependency       WaitReason = "dependency"        // a task that it depends on has not ended
	WaitDependencyFailed WaitReason = "dependency_failed" // a task that it depends on was deleted, or ended without completing
	WaitExclusive        WaitReason = "exclusive"         // another task with the same key runs
	WaitAgentBusy        WaitReason = "agent_busy"        // the agent works on another task, or starts one
	WaitAgentOffline     WaitReason = "agent_offline"     // the agent is not ready
	WaitNoAgent          WaitReason = "no_agent"          // the owner has no agent with the role
	WaitPoolFull         WaitReason = "pool_full"         // the pool has as many agents as it may have, and none is free
	WaitProvisioning     WaitReason = "provisioning"      // the agent is being created or started, or its pool cannot create agents now
	WaitPlaceDown        WaitReason = "place_down"        // the place cannot be used
	WaitPrincipalLimit   WaitReason = "principal_limit"   // the owner or the project has as many running tasks as the limit allows
	WaitUnconfined       WaitReason = "unconfined"        // the principal may not use the agent, which runs unconfined
	WaitBudget           WaitReason = "budget"            // a budget does not have what the task needs
	WaitBehind           WaitReason = "behind"            // other tasks of the agent start before it
	WaitUsageWindow      WaitReason = "usage_window"      // a usage window of the credential is used up
	WaitRetry            WaitReason = "retry"             // the next attempt begins later
	WaitDelegated        WaitReason = "delegated"         // its turn is over, and it waits for tasks that it has delegated
	WaitTree             WaitReason = "tree"              // as many tasks of its tree run as may run at once
)

// Wait is one reason why a task is pending.
type Wait struct {
	Reason  WaitReason
	Subject string    // what it waits for, for example the id of a task, the name of an agent, a key, or who holds it
	Text    string    // for people
	Since   time.Time // since when the reason has held; zero if that is not known
	Until   time.Time // when the reason ends; zero if that is not known
	Next    string    // what people can do about it, with tools in backticks; empty if they can only wait
}

// BudgetClaim is what a task must reserve of a budget before it can start.
type BudgetClaim struct {
	Budget string
	Needed Amount
	Text   string    // why the budget does not have the amount now, for people; empty if it does
	Next   string    // see Wait.Next
	Until  time.Time // when the next window of the budget begins; zero if there is none
}

// Validate returns INVALID_ARGUMENT if a value of the entry is not valid.
func (e *QueueEntry) Validate(now time.Time) error {
	switch {
	case e.Priority < -MaxPriority || e.Priority > MaxPriority:
		return InvalidField("priority", "priority is %d: give -%d to %d", e.Priority, MaxPriority, MaxPriority)
	case e.MaxAttempts < 0 || e.MaxAttempts > MaxAttempts:
		return InvalidField("max_attempts", "max_attempts is %d: give 1 to %d", e.MaxAttempts, MaxAttempts)
	case !e.Expires.IsZero() && !e.Expires.After(now):
		return InvalidField("expires", "expires is in the past: give a later time")
	case !e.Expires.IsZero() && e.Expires.Before(e.NotBefore):
		return InvalidField("expires", "expires is before not_before: give a later time")
	case len([]rune(e.ExclusiveKey)) > MaxExclusiveKey:
		return InvalidField("exclusive", "exclusive has %d characters: give at most %d", len([]rune(e.ExclusiveKey)), MaxExclusiveKey)
	case len(e.Dependencies) > MaxDependencies:
		return InvalidField("depends_on", "depends_on names %d tasks: give at most %d", len(e.Dependencies), MaxDependencies)
	}
	for i, d := range e.Dependencies {
		if slices.ContainsFunc(e.Dependencies[:i], func(o Dependency) bool { return o.TaskID == d.TaskID }) {
			return InvalidField("depends_on", "depends_on names task %q twice: name it once", d.TaskID)
		}
	}
	return nil
}
