package fleet

import (
	"context"
	"time"
)

// Integrator is implemented by a place that can bring the work of its agents together in the repositories of its projects.
type Integrator interface {
	// Repository returns the repository of the project with exactly this Project.Name. It sends no request. The error is
	// PROJECT_NOT_FOUND if there is no such project, and UNIMPLEMENTED if its agents do not work in a repository. If a place must
	// send a request to find that out, the methods of the repository return these errors.
	Repository(project string) (Repository, error)
}

// Repository is where the work on a project comes together. Its methods follow the rules of Place's methods. Only Move and Push change
// branches. None of them runs a hook, a filter or a merge driver of the repository or of an agent.
type Repository interface {
	// Collect makes sure that the repository has the commits with the changes of an agent. The error is CHANGES_NOT_FOUND if they are
	// lost, and AGENT_OFFLINE if they are in a workspace that does not run.
	Collect(ctx context.Context, a Agent, c Changes) error

	// Branch returns the branch with the name and its newest commit. An empty name selects the branch at which the work of the
	// project begins. If the branch is in another repository, Branch first asks that repository. The error is BRANCH_NOT_FOUND if
	// there is no such branch.
	Branch(ctx context.Context, name string) (Branch, error)

	// Contains reports whether the history of the commit has the older commit. It is false if the repository lacks one of them.
	Contains(ctx context.Context, commit, older string) (bool, error)

	// Combine creates the commit that brings the work on top of Combination.Onto, or says why that is not possible. The same Combination
	// gives the same commit. Move makes the commit reachable. The error is CHANGES_NOT_FOUND if the repository lacks a commit,
	// and INVALID_ARGUMENT on the field strategy if the commits cannot be rebased because there is a merge among them.
	Combine(ctx context.Context, c Combination) (CombineResult, error)

	// Overlaps compares the contributions with each other, each as if it alone were applied on top of the commit onto. It returns
	// which of them change the same lines, and which of them cannot be combined.
	Overlaps(ctx context.Context, onto string, all []Contribution) ([]WorkOverlap, error)

	// Check executes the check's command in a clean tree of the commit, confined as the agents of the project are, with nothing
	// that is not in the commit. It waits for the command. If the command is already running for the same commit and Check.ID, or
	// has ended, even in another process, Check waits for that execution or returns its result. After a server was killed, the
	// tree and the processes of a check remain for at most the check's timeout. If its context is done, Check ends the command.
	Check(ctx context.Context, commit string, c Check) (CheckResult, error)

	// Move moves the branch from the commit Branch.Commit to the commit to, whose history contains Branch.Commit. The error is
	// BRANCH_MOVED if the branch is no longer at Branch.Commit, PUSH_REFUSED if it is in another repository that refuses the
	// change, and BRANCH_CHECKED_OUT if people have checked it out with changes that would be overwritten. If people have checked
	// it out without such changes, their files follow.
	Move(ctx context.Context, b Branch, to string) error

	// Push writes the commit to a branch of another repository. The error is BRANCH_MOVED if that branch exists with commits that
	// are not in the history of the pushed commit, PUSH_REFUSED if that repository refuses the commit, and REMOTE_NOT_FOUND if
	// there is no such remote. Push uses the credentials of the server's user or of the workspace, depending on where the
	// repository is.
	Push(ctx context.Context, p Push) (PushResult, error)
}

// Importer is implemented by a Repository that does not have the work of agents whose workspaces are gone.
type Importer interface {
	// Import works like Repository.Collect, with a bundle that Runner.Bundle has written before the workspace was deleted. The error is
	// CHANGES_NOT_FOUND if the bundle lacks the commit.
	Import(ctx context.Context, c Changes, bundle []byte) error
}

// Branch is a branch with its newest commit.
type Branch struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
}

// Contribution is the changes of a task: the files of Head, compared with an earlier commit.
type Contribution struct {
	Name string // for WorkOverlap
	Head string
	// Since is the commit at which the work begins. It counts only if it is in the history of Head or, for Squash, if it is a
	// snapshot of uncommitted files whose parent is in that history. Moreover, the branch must not have a newer commit in common
	// with Head. If Since does not count, the work begins where its history and that of the branch meet. For Merge, the branch
	// must contain the commits before Since, because the merge makes them part of its history.
	Since string
}

// Combination is how work comes into a branch.
type Combination struct {
	Contribution
	Onto      string // the newest commit of the branch, or of the work that lands before this work
	Strategy  Strategy
	Message   string // of the commit that squash or merge creates
	Author    Person // of the commit that squash creates; without an Email, it is the project's author, and Name is the default for the author's name
	Committer Person // of all commits that are created
	At        time.Time
}

// Person is the author or the committer of a commit.
type Person struct{ Name, Email string }

// Strategy is how commits come into a branch.
type Strategy string

// The strategies.
const (
	Squash Strategy = "squash" // one new commit with the whole work
	Rebase Strategy = "rebase" // a copy of each commit of the work, on top of the branch
	Merge  Strategy = "merge"  // one commit that joins the branch and the work
)

// CombineResult is the result of Repository.Combine.
type CombineResult struct {
	Commit    string     // Onto if the branch already has all of the work; empty if there are conflicts
	Base      string     // the commit with which the work was compared
	Conflicts []Conflict // at most MaxConflicts
}

// MaxConflicts is the maximum length of CombineResult.Conflicts.
const MaxConflicts = 100

// MaxHunksSize is the maximum size of Conflict.Hunks, in bytes.
const MaxHunksSize = 4 << 10

// Conflict is a file that git cannot combine.
type Conflict struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // as git calls it, such as content or modify/delete
	// Hunks are the lines that differ, with git's conflict markers; empty if the file is not text. They are at most MaxHunksSize long.
	Hunks string `json:"hunks,omitempty"`
}

// WorkOverlap is two contributions that change the same lines, or that cannot be combined.
type WorkOverlap struct {
	A, B     string        // Contribution.Name
	Files    []OverlapFile // which both change
	Conflict bool          // they cannot be combined
}

// OverlapFile is a file that two contributions change.
type OverlapFile struct {
	Path string
	// Lines are the first and the last line of each part that both change, counted in the commit onto. If both insert lines after
	// line n, they are n, n. Lines is empty if the file is not text, or if the two change different lines.
	Lines [][2]int
}

// Push is a commit for a branch of another repository.
type Push struct {
	Commit string
	Branch string
	Remote string // name of a remote of the repository; empty: the only one, or origin
}

// PushResult says where a commit was pushed to.
type PushResult struct {
	Remote string
	URL    string // without a password
}
