package fleet

import "time"

// MaxChangedFiles is the maximum length of Changes.FileChanges.
const MaxChangedFiles = 1000

// MaxLeftOut is the maximum length of Changes.LeftOut.
const MaxLeftOut = 200

// Changes describes what a task changed in the working tree of its agent.
type Changes struct {
	Base    string `json:"base"`    // commit at which the task began
	Commit  string `json:"commit"`  // contains the tree at the end of the task, including uncommitted changes
	Ref     string `json:"ref"`     // keeps Commit in the repository
	Branch  string `json:"branch"`  // the branch of the repository that has the commits of the agent's branch; empty if the agent was on no branch
	Commits int    `json:"commits"` // number of commits since Base on the agent's branch
	Dirty   bool   `json:"dirty"`   // Commit contains uncommitted changes
	Pushed  bool   `json:"pushed"`  // a branch of a remote contains all of the agent's commits

	// FileCount counts the files that differ between Base and Commit; FileChanges has the first MaxChangedFiles, by path.
	FileCount   int          `json:"files"`
	Insertions  int          `json:"insertions"`
	Deletions   int          `json:"deletions"`
	FileChanges []FileChange `json:"list,omitempty"`

	// LeftOut names what is missing from Commit or FileChanges, each with the reason in parentheses.
	LeftOut []string `json:"left_out,omitempty"`

	At time.Time `json:"at"` // when the tree was examined
	// Problem says why the changes are not known. The other fields are then zero, except At, Temporary and Tries.
	Problem string `json:"problem,omitempty"`
	// Temporary means that the problem is temporary, for example a workspace that does not run. Fleet examines the tree again
	// before the agent's next task and before the agent's deletion.
	Temporary bool `json:"later,omitempty"`
	// Tries counts the attempts to collect the changes during which the server was killed, perhaps because of what it
	// collected.
	Tries int `json:"tries,omitempty"`
}

// FileChange is one changed file.
type FileChange struct {
	Path       string         `json:"path"`
	From       string         `json:"from,omitempty"` // the previous path of a renamed file
	Kind       FileChangeKind `json:"kind"`
	Insertions int            `json:"insertions,omitempty"`
	Deletions  int            `json:"deletions,omitempty"`
	Binary     bool           `json:"binary,omitempty"` // lines are not counted
}

// FileChangeKind says what happened to a file.
type FileChangeKind string

// The kinds of changes of files.
const (
	FileAdded    FileChangeKind = "added"
	FileModified FileChangeKind = "modified"
	FileDeleted  FileChangeKind = "deleted"
	FileRenamed  FileChangeKind = "renamed"
)
