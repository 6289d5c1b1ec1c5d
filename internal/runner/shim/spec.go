package shim

import (
	"time"

	"fleet/internal/runner/sandbox"
)

// Spec is what to run. It is no place for secrets.
type Spec struct {
	Program      string        `json:"program"`                 // the file that is executed
	Argv         []string      `json:"argv"`                    // its arguments, with its name first
	Dir          string        `json:"dir"`                     // where it is started
	Timeout      time.Duration `json:"timeout"`                 // it is ended after this time; 0 never
	Grace        time.Duration `json:"grace"`                   // how long it gets to end by itself when it is ended at its deadline
	MaxOutput    int64         `json:"max_output"`              // bytes of the errors that are kept, and of the output at least
	RawOutput    int64         `json:"raw_output,omitempty"`    // bytes of the output that are kept at most; 0: as MaxOutput
	SplitStderr  bool          `json:"split_stderr,omitempty"`  // errors go to a file of their own, not into the output
	StdinFile    string        `json:"stdin_file,omitempty"`    // in the run's directory; none: empty input
	Messages     bool          `json:"messages,omitempty"`      // it reads messages, from MessagesFD
	MessagesJSON bool          `json:"messages_json,omitempty"` // a message is a line with a JSON string
	Requests     bool          `json:"requests,omitempty"`      // its output tells when it asks its model, see requests
	Asks         *Asks         `json:"asks,omitempty"`          // it may ask; nil: it may not
	// Sandbox is what the program may reach; nil: everything that this user may.
	Sandbox *sandbox.Policy `json:"sandbox,omitempty"`
	Secrets []string        `json:"secrets,omitempty"` // files in the run's directory that are removed when it ends; StdinFile when it has begun
	Log     string          `json:"log,omitempty"`     // file that gets a line when it ends
	Mark    string          `json:"mark"`              // variable of the child's environment that tells its descendants
	Name    string          `json:"name"`              // of the run, for the log
}

// End says why a run ended.
type End string

// The ends of runs.
const (
	Exited      End = "exited"      // by itself
	Deadline    End = "deadline"    // it was ended, since its time was over
	Interrupted End = "interrupted" // it was ended, since somebody asked for it
	NotStarted  End = "not started" // the program could not be executed
	Lost        End = "lost"        // the shim was killed, and the child with it
)

// Exit is how a run ended.
type Exit struct {
	End     End       `json:"end"`
	Code    int       `json:"code"`             // the child's exit code; -1 when a signal ended it, or nobody knows
	Signal  string    `json:"signal,omitempty"` // that ended it
	Reason  string    `json:"reason,omitempty"` // who interrupted it, why it did not start, in words
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Trouble string    `json:"trouble,omitempty"` // what the shim could not do, e.g. write to a full disk
}
