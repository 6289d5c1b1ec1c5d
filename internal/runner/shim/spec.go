package shim

import (
	"time"

	"fleet/internal/runner/sandbox"
)

// Spec is the specification of a run. It must not contain secrets.
type Spec struct {
	Program      string        `json:"program"`                 // the executed file
	Argv         []string      `json:"argv"`                    // its arguments, starting with its name
	Dir          string        `json:"dir"`                     // its working directory
	Timeout      time.Duration `json:"timeout"`                 // time limit; 0: none
	Grace        time.Duration `json:"grace"`                   // how long it may take to stop at its time limit before it is killed
	MaxOutput    int64         `json:"max_output"`              // maximum size of the kept stderr, and minimum size of the kept output, in bytes
	RawOutput    int64         `json:"raw_output,omitempty"`    // maximum size of the kept output, in bytes; 0: MaxOutput
	SplitStderr  bool          `json:"split_stderr,omitempty"`  // stderr goes to its own file instead of the output
	StdinFile    string        `json:"stdin_file,omitempty"`    // in the run's directory; empty: no input
	Messages     bool          `json:"messages,omitempty"`      // it reads messages from MessagesFD
	MessagesJSON bool          `json:"messages_json,omitempty"` // a message is a line with a JSON string
	Requests     bool          `json:"requests,omitempty"`      // its output contains the events for requests
	Asks         *Asks         `json:"asks,omitempty"`          // nil: it cannot ask questions
	// Sandbox limits what the program may access; nil: everything that this user may.
	Sandbox *sandbox.Policy `json:"sandbox,omitempty"`
	Secrets []string        `json:"secrets,omitempty"` // files in the run's directory that are removed at its end, and StdinFile already at its start
	Log     string          `json:"log,omitempty"`     // file for a line about its start, and one about its end
	Mark    string          `json:"mark"`              // variable in the child's environment that identifies its descendants
	Name    string          `json:"name"`              // of the run, for the log
}

// End is the kind of a run's end.
type End string

// Kinds of a run's end.
const (
	Exited      End = "exited"      // by itself
	Deadline    End = "deadline"    // at its time limit
	Interrupted End = "interrupted" // by a request
	NotStarted  End = "not started" // the program did not start
	Lost        End = "lost"        // the shim was killed, and so was the child
)

// Exit records how a run ended.
type Exit struct {
	End     End       `json:"end"`
	Code    int       `json:"code"`             // the child's exit code; -1 if a signal ended it, or if unknown
	Signal  string    `json:"signal,omitempty"` // the signal that ended it
	Reason  string    `json:"reason,omitempty"` // who interrupted it, or why it did not start
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Problem string    `json:"trouble,omitempty"` // what the shim failed to do, e.g. because of a full disk
}
