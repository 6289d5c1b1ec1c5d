package shim

import (
	"time"

	"fleet/internal/runner/sandbox"
)

// Spec is the specification of a run. It must not contain secrets.
type Spec struct {
	Program          string          `json:"program"`                // the executed file
	Argv             []string        `json:"argv"`                   // the program's arguments, starting with its name
	Dir              string          `json:"dir"`                    // the program's working directory
	Timeout          time.Duration   `json:"timeout"`                // time limit; 0 means no limit
	Grace            time.Duration   `json:"grace"`                  // how long the run may take to stop, for example at its time limit, before it is killed
	MaxOutput        int64           `json:"max_output"`             // limit of the kept stderr, in bytes; the limit of the output is at least this
	MaxRawOutput     int64           `json:"raw_output,omitempty"`   // maximum size of the kept output, in bytes; 0 means MaxOutput
	SplitStderr      bool            `json:"split_stderr,omitempty"` // stderr goes to its own file instead of the output
	StdinFile        string          `json:"stdin_file,omitempty"`   // file in the run's directory; empty for an empty input
	ReadsMessages    bool            `json:"messages,omitempty"`     // the program reads messages from MessagesFD
	ConfirmsMessages bool            `json:"mailbox,omitempty"`      // the program confirms messages, see package mailbox
	ReportsRequests  bool            `json:"requests,omitempty"`     // the output contains events about requests to the model
	EndsOnSIGTERM    bool            `json:"finishes,omitempty"`     // if the shim is killed, the program ends by itself after SIGTERM
	Questions        *QuestionConfig `json:"asks,omitempty"`         // nil if the program cannot ask questions
	Terminal         *TerminalSize   `json:"terminal,omitempty"`     // a person uses the program on a terminal of this size; nil if the program has none
	// Sandbox limits what the program may access. If it is nil, the program may access everything that its user may.
	Sandbox     *sandbox.Policy `json:"sandbox,omitempty"`
	SecretFiles []string        `json:"secrets,omitempty"` // files to remove at the end of the run; if one of them is StdinFile, it is removed at the start
	Log         string          `json:"log,omitempty"`     // file that gets a line about the start, and a line about the end
	Mark        string          `json:"mark"`              // variable in the child's environment that identifies its descendants
	Name        string          `json:"name"`              // name of the run, for the log
}

// End is the kind of a run's end.
type End string

// Kinds of a run's end.
const (
	Exited      End = "exited"      // the child ended by itself
	Deadline    End = "deadline"    // the run was ended at its time limit
	Interrupted End = "interrupted" // the run was ended by a request
	NotStarted  End = "not started" // the program did not start
	Lost        End = "lost"        // the shim was killed or told to end, and the child ended with it, although nobody had asked the run to end
)

// Exit records how a run ended.
type Exit struct {
	End       End       `json:"end"`
	Code      int       `json:"code"`             // the child's exit code; -1 if a signal ended the child, or if the code is unknown
	Signal    string    `json:"signal,omitempty"` // the signal that ended the child
	Reason    string    `json:"reason,omitempty"` // why the run was interrupted or lost, or did not start
	StartedAt time.Time `json:"started"`
	EndedAt   time.Time `json:"ended"`
	Problem   string    `json:"trouble,omitempty"` // a failure of the shim, for example because of a full disk
}
