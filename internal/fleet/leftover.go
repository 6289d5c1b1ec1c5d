package fleet

import (
	"context"
	"time"
)

// Pruner is implemented by a place that keeps what agents have left: snapshots and branches in the repositories of its projects, and homes
// of deleted agents.
type Pruner interface {
	// Prune removes what the query selects, or only lists it, the largest first. It removes nothing whose commits are not proved to be
	// elsewhere, unless the query says so. It proves that again for everything that it removes. What it cannot remove has a Problem, and does
	// not prevent the rest.
	Prune(ctx context.Context, q PruneQuery) ([]Leftover, error)
}

// PruneQuery selects leftovers. A repository may have agents of other servers, so a place touches only what belongs to agents and tasks that
// the query knows.
type PruneQuery struct {
	Project string    // with exactly this Project.Name; empty: all
	Before  time.Time // only homes that were kept before, and only refs and branches without later commits
	// Deleted returns those of the agents that were deleted before that time.
	Deleted func(ctx context.Context, uids []string) ([]DeletedAgent, error)
	Tasks   []string // ids of tasks that were over before that time, also of agents that exist
	// Settled are commits of work that has landed or was abandoned. They, and what they are based on, need not be elsewhere.
	Settled []string
	// Unproved also removes what may exist nowhere else: of deleted agents, not of others.
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

// LeftoverProof says why nothing is lost with a leftover.
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
	Reason    string // why it may go, or what may be lost, for people
	Removed   bool
	Problem   string // why it was not removed, for people; empty if it was, or if nobody has asked for that
}

// MaxLeftoverNames is the maximum length of Leftover.Names.
const MaxLeftoverNames = 100
