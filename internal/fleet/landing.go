package fleet

import (
	"slices"
	"time"
)

// LandingState says how far the work of a task has come on its way into a branch of its project.
type LandingState string

// The states of work. Landed, replaced and abandoned are final.
const (
	LandingBranch           LandingState = "branch"            // nobody has looked at it
	LandingReview           LandingState = "review"            // people have commented on it
	LandingChangesRequested LandingState = "changes_requested" // people or checks demand changes
	LandingApproved         LandingState = "approved"
	LandingQueued           LandingState = "queued"    // it lands as soon as it is its turn
	LandingConflict         LandingState = "conflict"  // it cannot be combined with the branch
	LandingLanded           LandingState = "landed"    // the branch has it
	LandingReplaced         LandingState = "replaced"  // a later task of the agent continues it
	LandingAbandoned        LandingState = "abandoned" // somebody has said that it is not needed
)

var landingStates = []LandingState{
	LandingBranch, LandingReview, LandingChangesRequested, LandingApproved, LandingQueued, LandingConflict, LandingLanded, LandingReplaced, LandingAbandoned,
}

// Valid reports whether s is one of the constants.
func (s LandingState) Valid() bool { return slices.Contains(landingStates, s) }

// Settled reports whether nobody has to do anything more about the work: it has landed, was abandoned, or was replaced.
func (s LandingState) Settled() bool {
	return s == LandingLanded || s == LandingAbandoned || s == LandingReplaced
}

// Landing describes how a task's work gets into a branch. A task has a landing if it has changed something in a repository.
type Landing struct {
	TaskID  string       `json:"-"`
	State   LandingState `json:"-"`
	Place   string       `json:"place"`
	Project string       `json:"project"`

	// These mean the same as the fields of Changes with these names; Head is Changes.Commit.
	Base   string `json:"base"`
	Head   string `json:"head"`
	Branch string `json:"branch,omitempty"`
	// FileCount is 0 if nothing is known about the files and lines.
	FileCount  int `json:"files"`
	Insertions int `json:"insertions"`
	Deletions  int `json:"deletions"`

	// Request says how the work is to land; nil if nobody has asked for it to land.
	Request *LandingRequest `json:"order,omitempty"`
	// Candidate is the commit to which the branch is about to move, written before it moves. If the server is killed then, the
	// next server uses it to find out whether the branch was moved.
	Candidate string `json:"candidate,omitempty"`
	// Commit is the commit of Request.Into that has the work; empty unless it has landed.
	Commit string `json:"commit,omitempty"`
	// EvidenceAt is when Fleet last saw in the repository that State is true; zero if it never did.
	EvidenceAt time.Time `json:"evidence_at,omitzero"`

	Problem   string        `json:"problem,omitempty"` // why it has not landed, for people
	Conflicts []Conflict    `json:"conflicts,omitempty"`
	Checks    []CheckResult `json:"checks,omitempty"` // of the commit that has landed, or was to land

	// NextTask is the id of the task that continues the work: it makes the requested changes, or resolves a conflict.
	NextTask string `json:"next_task,omitempty"`
	// EarlierTasks are the ids of the tasks whose work this one continues, oldest first.
	EarlierTasks []string `json:"earlier,omitempty"`

	Publication *Publication `json:"published,omitempty"`
	UpdatedAt   time.Time    `json:"updated_at"`
}

// MaxFixes is how many tasks in a row may try to make the same work land after a conflict or failed checks.
const MaxFixes = 3

// LandingRequest says who has asked for a landing, and how.
type LandingRequest struct {
	By string `json:"by"` // name of the principal
	Authorization
	At       time.Time `json:"at"`
	Into     string    `json:"into"` // name of the branch
	Strategy Strategy  `json:"strategy"`
	Message  string    `json:"message,omitempty"` // of the commit; empty: from the task
	Batch    int       `json:"batch"`             // how many tasks may have their work checked together
	Fix      bool      `json:"fix"`               // a conflict or failed checks become a task of the agent
}

// MaxBatch is the maximum of LandingRequest.Batch.
const MaxBatch = 50

// Publication says where work was pushed to.
type Publication struct {
	Remote      string    `json:"remote"`
	URL         string    `json:"url,omitempty"`
	Branch      string    `json:"branch"`
	Commit      string    `json:"commit"`
	PullRequest string    `json:"pull_request,omitempty"` // its address
	At          time.Time `json:"at"`
}

// NewLanding returns the landing of the changes of the agent's task; nil if nothing was changed, or if the changes are not
// known.
func NewLanding(a *Agent, t *Task, c *Changes) *Landing {
	if c == nil || c.Problem != "" || c.Commit == "" || c.Commits == 0 && c.FileCount == 0 {
		return nil
	}
	return &Landing{
		TaskID: t.ID, State: LandingBranch, Place: a.Place, Project: a.Project, Base: c.Base, Head: c.Commit, Branch: c.Branch,
		FileCount: c.FileCount, Insertions: c.Insertions, Deletions: c.Deletions, EvidenceAt: c.At, UpdatedAt: c.At,
	}
}

// Event returns an event about the landing of the task.
func (l *Landing) Event(t *Task, now time.Time, text string) *Event {
	e := t.Event(EventTaskLanding, now, text)
	e.Status = string(l.State)
	return e
}

// LandingFilter selects landings: those in the States, or those of the tasks if States is empty. The zero value selects none.
type LandingFilter struct {
	TaskIDs []string
	States  []LandingState
}

// Into returns the branch into which the work is to land; "" if nobody has asked for it to land.
func (l *Landing) Into() string {
	if l.Request == nil {
		return ""
	}
	return l.Request.Into
}

// ShortCommit returns as much of the id of a commit as people read.
func ShortCommit(id string) string { return id[:min(len(id), 12)] }

// Train names the queue of a project's work that is to land. The work lands one after the other.
type Train struct{ Place, Project string }

// Key identifies the train.
func (t Train) Key() string { return t.Place + "/" + t.Project }
