package fleet

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Place is where agents live. The reconciler calls it. A place has no rules about agents. It keeps in the workspaces
// themselves whatever it needs to find its workspaces and runs after a crash.
//
// Every method returns promptly with the context's error when its context is done. The same call can then be repeated to
// finish the work. Errors are *Error: BACKEND_UNAVAILABLE if the host does not answer, so that the caller retries; others
// if a retry does not help. If the host identifies its callers, the place checks before each request that the host still
// takes it for the same caller, because another caller may see other workspaces, or none. If the host takes it for another
// caller, every method fails with ErrOtherIdentity. Methods are safe for concurrent use. The methods for one agent are called
// one at a time, except Inspect, which like List may be called at any time.
type Place interface {
	// Traits returns facts about the place. They never change.
	Traits() Traits

	// Projects lists the projects that agents can work on, by name. An empty list is not an error.
	Projects(ctx context.Context) ([]Project, error)

	// Roles lists the roles of the project with exactly this Project.Name, in the project's order, at least one.
	// PROJECT_NOT_FOUND if there is no such project.
	Roles(ctx context.Context, project string) ([]Role, error)

	// Provision creates the agent's workspace and returns it. The workspace may still be starting. Another call for the
	// same Agent.UID returns the same workspace, even if the first call was interrupted. The error is PROVISIONING_FAILED if
	// the workspace cannot be created now, and AGENT_EXISTS if somebody else's workspace has the name. It is
	// INVALID_ARGUMENT, INVALID_NAME or the like if the workspace can never be created; the caller then does not retry.
	Provision(ctx context.Context, a Agent) (Workspace, error)

	// Start starts a stopped or failed workspace, with the changes in Agent.Next. Everything else stays as it is at the
	// host. Start does nothing if the workspace runs or starts.
	Start(ctx context.Context, a Agent) error

	// Stop stops a workspace and keeps its content; runs in it end. It does nothing if the workspace is stopped.
	Stop(ctx context.Context, a Agent) error

	// Delete destroys the workspace and ends the runs in it. kept describes, for people, the work that Delete has kept
	// because it must not be lost. Nothing else is left of the workspace after a nil error. A missing workspace is not an
	// error. If the host does not show the workspace, and does not say that it was deleted, kept says so.
	Delete(ctx context.Context, a Agent) (kept string, err error)

	// Inspect returns the state of one workspace. StateDeleted means that the host says of this workspace that it was
	// deleted, or that the agent never had one. A workspace that the host merely does not show has Missing set.
	Inspect(ctx context.Context, a Agent) (Workspace, error)

	// List returns all workspaces that host agents, including those that Fleet's store does not know. The caller must not
	// conclude that a workspace was deleted because it is not listed. A problem with one workspace does not fail the listing:
	// the workspace is listed with a Reason and the fields that are known. A workspace without a Name is not adopted yet. If
	// the Role is missing, Owner, Role and Spec are taken from a later listing.
	List(ctx context.Context) ([]Workspace, error)

	// Log returns the last lines of the workspace's log, at most n, oldest first, and whether there were more.
	Log(ctx context.Context, a Agent, n int) (lines []string, truncated bool, err error)

	// Connect returns the runner of the agent. It sends no request; the runner's methods do.
	Connect(a Agent) Runner

	// Close ends the place's background work and waits for it. Workspaces and runs continue.
	Close() error
}

// Confiner is implemented by a place whose agents may run programs on a shared machine.
type Confiner interface {
	// UnconfinedReason says, for people, why the agent's programs could reach files and processes of others, and what to do about it. It
	// returns "" if they cannot.
	UnconfinedReason(a Agent) string
}

// Versioner is implemented by a place whose workspaces keep the version of their project with which they were made, until
// Start is told to update them (NextStart.Update).
type Versioner interface {
	// CheckStart checks, before a workspace is stopped, whether it can be started again as Agent.Next says. It changes
	// nothing, may be called at any time, and returns the exact name of the role that the workspace will have. ROLE_NOT_FOUND
	// if the version has no such role, INVALID_ARGUMENT if it does not accept the agent's parameters or needs more of them.
	CheckStart(ctx context.Context, a Agent) (role string, err error)
}

// Tidier is implemented by a place that keeps things for a limited time.
type Tidier interface {
	// Tidy removes the things that have expired by the time now. It is called periodically, and tries again to remove things that it
	// could not remove before.
	Tidy(ctx context.Context, now time.Time) error
}

// Keeper is implemented by a place whose Delete keeps the workspace for a while if work in it may exist nowhere else. Start
// brings the workspace of a deleted agent back.
type Keeper interface {
	// KeptWork returns the kept workspaces, oldest first. If uid is not empty, it returns only that of the agent with the uid.
	KeptWork(ctx context.Context, uid string) ([]KeptWork, error)
}

// Credentialer is implemented by a place that knows which keys or subscriptions its agents use for their models.
type Credentialer interface {
	// Credential names the credential of the project's agents. It is empty if they have none, or if it is not known. It
	// sends no request.
	Credential(project string) string
}

// CostLimiter is implemented by a place whose projects and roles can limit the cost of a task.
type CostLimiter interface {
	// MaxCost returns the cost limit of a task of the project's role whose caller sets no limit; 0 if there is none, or if it is
	// not known. It sends no request.
	MaxCost(project, role string) Micros
}

// Delegator is implemented by a place whose roles can let agents delegate tasks.
type Delegator interface {
	// Grant returns what agents with the role in the project may delegate, with all defaults; nil: nothing.
	Grant(project, role string) *Grant
}

// Examiner is implemented by a place that knows better than Runner.Bundle which work exists only in a workspace.
type Examiner interface {
	// UnsavedWork describes, for people, the work of the agent that may exist only in its workspace. It is empty only if it is
	// proved that there is no such work. It is called while the agent has no task. UNIMPLEMENTED means that only
	// Runner.Bundle knows.
	UnsavedWork(ctx context.Context, a Agent) (what string, err error)
}

// ErrOtherIdentity is in the chain of a place's error if the host takes the place for another caller than before, for example
// because its token was replaced. The place does nothing until an operator has decided which caller it is.
var ErrOtherIdentity = errors.New("the place asks as another caller than before")

// PlaceOn returns the name of a place that is bound to the machine of one server. Each of several servers that share a
// store has its own place of the kind. server is the server's name; it is empty if only one server uses the store.
func PlaceOn(kind, server string) string {
	if server == "" {
		return kind
	}
	return kind + "@" + server
}

// SplitPlace splits the name of a place into the kind and the name of its server. server is empty for a place that every
// server reaches.
func SplitPlace(place string) (kind, server string) {
	kind, server, _ = strings.Cut(place, "@")
	return kind, server
}
