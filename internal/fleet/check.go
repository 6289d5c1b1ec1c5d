package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// These are limits of single checks and of their number.
const (
	MaxChecks       = 20
	MaxCheckCommand = 4000     // of a command, in bytes
	MaxCheckOutput  = 16 << 10 // of CheckResult.Output, in bytes: the end of the command's output
)

// Check is a command that verifies the work of a run. The runner executes it, never the agent.
type Check struct {
	ID      string // unique within a run: lower-case letters and digits
	Command string // executed by a shell
	Timeout time.Duration
}

// Checks configures how the work of a task is checked. The zero value sets nothing.
type Checks struct {
	Commands []string      `json:"commands,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"` // of each command; 0 means not set
	Retries  *int          `json:"retries,omitempty"` // how often the agent may try again when checks fail; nil means not set
}

// These are the limits and the defaults of Checks.
const (
	DefaultCheckTimeout = 10 * time.Minute
	MaxCheckTimeout     = 24 * time.Hour
	DefaultCheckRetries = 1
	MaxCheckRetries     = 10
)

// Validate returns INVALID_ARGUMENT if the checks exceed a limit or contain an invalid command.
func (c Checks) Validate() error {
	if len(c.Commands) > MaxChecks {
		return InvalidField("checks", "there are %d checks: give at most %d", len(c.Commands), MaxChecks)
	}
	for i, command := range c.Commands {
		switch {
		case IsBlank(command):
			return InvalidField("checks", "check %d is empty: a check is a command for a shell", i+1)
		case len(command) > MaxCheckCommand:
			return InvalidField("checks", "check %d has %d bytes: give at most %d, and put the rest into a script", i+1, len(command), MaxCheckCommand)
		case strings.ContainsRune(command, 0):
			return InvalidField("checks", "check %d contains a zero byte: remove the zero byte", i+1)
		}
	}
	if c.Timeout < 0 || c.Timeout > MaxCheckTimeout {
		return InvalidField("check_timeout_seconds", "check_timeout_seconds is %d: give 1 to %d", int64(c.Timeout.Seconds()), int64(MaxCheckTimeout.Seconds()))
	}
	if c.Retries != nil && (*c.Retries < 0 || *c.Retries > MaxCheckRetries) {
		return InvalidField("retries", "retries is %d: give 0 to %d", *c.Retries, MaxCheckRetries)
	}
	return nil
}

// IsSet reports whether anything is set.
func (c Checks) IsSet() bool { return len(c.Commands) > 0 || c.Timeout != 0 || c.Retries != nil }

// With returns c combined with more, which is more specific: the commands of both, and each other value from more if more sets
// it, else from c.
func (c Checks) With(more Checks) Checks {
	c.Commands = slices.Concat(c.Commands, more.Commands)
	c.Timeout = cmp.Or(more.Timeout, c.Timeout)
	if more.Retries != nil {
		c.Retries = more.Retries
	}
	return c
}

// TaskChecks is the state of a task's checks.
type TaskChecks struct {
	Requested Checks        `json:"asked"`             // by the caller who started the task
	Try       int           `json:"try"`               // the try that Results belong to; 0 is the first
	Retries   int           `json:"retries,omitempty"` // how many tries began because checks had failed
	Results   []CheckResult `json:"results,omitempty"` // of the checks that have ended, in order
}

// CheckStatus says how a check ended.
type CheckStatus string

// The statuses of checks.
const (
	CheckPassed   CheckStatus = "passed"
	CheckFailed   CheckStatus = "failed"    // the command exited with a code other than 0, or could not be started
	CheckTimedOut CheckStatus = "timed_out" // it exceeded its timeout
	CheckStopped  CheckStatus = "stopped"   // it was ended by Interrupt, or with its workspace
)

// CheckResult is the result of a check, with its output.
type CheckResult struct {
	Command   string      `json:"command"`
	Status    CheckStatus `json:"status"`
	ExitCode  *int        `json:"exit_code,omitempty"` // nil if the command did not end by itself
	Reason    string      `json:"reason,omitempty"`    // why it has no exit code, for people
	Output    string      `json:"output"`              // the end of the command's standard output and standard error
	Truncated bool        `json:"truncated,omitempty"` // Output lacks the beginning
	StartedAt time.Time   `json:"started_at"`
	EndedAt   time.Time   `json:"ended_at"`
}
