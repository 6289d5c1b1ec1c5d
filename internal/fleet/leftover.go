package fleet

import (
	"context"
	"time"
)

// Pruner is implemented by a place that keeps leftovers of agents: snapshots and branches in the repositories of its projects,
// and homes of deleted agents.
type Pruner interface {
	// Prune removes the leftovers that the query selects, or only lists them, the largest first. Unless the query allows it,
	// Prune removes nothing whose commits are not proved to be elsewhere. It repeats the proof for everything that it removes. A
	// leftover that it cannot remove has a Problem, and the others are removed anyway.
	Prune(ctx context.Context, q PruneQuery) ([]Leftover, error)
}

// PruneQuery selects leftovers. A repository may have agents of other servers, so a place touches only what belongs to agents and tasks that
// the query knows.
type PruneQuery struct {
	Project string    // with exactly this Project.Name; empty: all
	Before  time.Time // only homes that were kept before this time, and only refs and branches without later commits
	// Deleted returns those of the agents that were deleted before the time Before.
	Deleted func(ctx context.Context, uids []string) ([]DeletedAgent, error)
	Tasks   []string // ids of tasks that were over before that time, also of agents that exist
	// Settled are commits of work that has landed or was abandoned. They, and what they are based on, need not be elsewhere.
	Settled []string
	// Unproved means that leftovers of deleted agents, but not of others, are removed even if their content may exist nowhere
	// else.
	Unproved bool
	DryRun   bool // remove nothing
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

// LeftoverProof says why nothing is lost when a leftover is removed.
type LeftoverProof string

// The proofs.
const (
	LeftoverElsewhere LeftoverProof = "elsewhere" // its commits are in a branch of people, in a tag or in a branch of a remote
	LeftoverSettled   LeftoverProof = "settled"   // its work has landed or was abandoned, as PruneQuery.Settled says
	LeftoverUnproved  LeftoverProof = "unproved"  // it may be lost
)

// Leftover is what an agent has left in one place.
type Leftover struct {
	Kind      LeftoverKind
	Project   string
	AgentUID  string
	AgentName string   // empty if it is not known
	Location  string   // the path of the repository or of the home
	Names     []string // of refs or branches, at most MaxLeftoverNames
	Count     int      // of all names; 1 for a home
	Size      int64    // bytes that only leftovers of the agent need, each counted once; git frees them with a later gc
	Newest    time.Time
	Proof     LeftoverProof
	Reason    string // why it may be removed, or what may be lost, for people
	Removed   bool
	Problem   string // why it was not removed, for people; empty if it was removed, or if nobody has asked for that
}

// MaxLeftoverNames is the maximum length of Leftover.Names.
const MaxLeftoverNames = 100
