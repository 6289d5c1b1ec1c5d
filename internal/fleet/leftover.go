package fleet

import (
	"context"
	"time"
)

// Pruner is implemented by a place that keeps leftovers of agents: snapshots and branches in the repositories of its projects,
// and homes of deleted agents.
type Pruner interface {
	// Prune removes the leftovers that the query selects, and returns them, the largest first. If q.DryRun is set, it removes
	// nothing. Unless q.IncludeUnproved is set, Prune removes a leftover only if its work has landed, was abandoned, or is proved to be
	// elsewhere. It checks this again right before it removes the leftover. If a leftover cannot be removed, its Problem is set,
	// and Prune goes on with the next.
	Prune(ctx context.Context, q PruneQuery) ([]Leftover, error)
}

// PruneQuery selects leftovers. Agents of other servers may work in the same repository, so a place removes only what belongs to
// the agents and tasks that the query knows.
type PruneQuery struct {
	Project string    // with exactly this Project.Name; empty: all
	Before  time.Time // selects homes that were kept before this time, and refs and branches whose commits are all older
	// FindDeleted returns the agents with these uids that were deleted before the time Before.
	FindDeleted  func(ctx context.Context, uids []string) ([]DeletedAgent, error)
	EndedTaskIDs []string // tasks that had ended by the time Before, also of agents that still exist
	// SettledCommits are commits of work that has landed or was abandoned. These commits and their ancestors need not be elsewhere.
	SettledCommits []string
	// IncludeUnproved means that leftovers of deleted agents are removed even if their content may exist nowhere else. It does not
	// apply to leftovers of agents that are not known to be deleted.
	IncludeUnproved bool
	DryRun          bool // remove nothing
}

// DeletedAgent is an agent that was deleted.
type DeletedAgent struct{ UID, Name string }

// LeftoverKind says what a leftover is.
type LeftoverKind string

// The kinds of leftovers.
const (
	LeftoverSnapshots LeftoverKind = "snapshots" // refs of an agent's tasks
	LeftoverBranches  LeftoverKind = "branches"  // of a deleted agent
	LeftoverHome      LeftoverKind = "home"      // the kept directory of a deleted agent
)

// LeftoverProof says why nothing is lost when a leftover is removed, or that this is not proved.
type LeftoverProof string

// The values of LeftoverProof.
const (
	LeftoverElsewhere LeftoverProof = "elsewhere" // its commits are in a branch that is not an agent's, in a tag, or in a branch of a remote
	LeftoverSettled   LeftoverProof = "settled"   // its work has landed or was abandoned, as PruneQuery.SettledCommits says
	LeftoverUnproved  LeftoverProof = "unproved"  // it may be lost
)

// Leftover is what an agent has left in one place.
type Leftover struct {
	Kind      LeftoverKind
	Project   string
	AgentUID  string
	AgentName string    // empty if it is not known
	Location  string    // the path of the repository or of the home
	Names     []string  // of refs or branches, at most MaxLeftoverNames
	Count     int       // of all names; 1 for a home
	Size      int64     // bytes that only leftovers of the agent need, each counted once; git frees them with a later gc
	Newest    time.Time // of the newest commit, or when the home was kept
	Proof     LeftoverProof
	Reason    string // why it may be removed, or what may be lost, for people
	Removed   bool
	Problem   string // why the removal failed, for people; empty if it succeeded or was not requested
}

// MaxLeftoverNames is the maximum length of Leftover.Names.
const MaxLeftoverNames = 100
