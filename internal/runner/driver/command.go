package driver

import (
	"strings"

	"fleet/internal/fleet"
)

// Command describes how to start a program.
type Command struct {
	Argv             []string
	Env              map[string]string
	Files            []File // files to create in the run's directory before the start
	AgentProgram     string // the agent's program, if Argv[0] is a helper that starts it; otherwise empty
	StdinFile        string // name of the file in Files that is the standard input; empty for no input
	ReadsMessages    bool   // the program reads messages while it works
	ConfirmsMessages bool   // the program confirms messages, see package mailbox
	SplitStderr      bool   // the output is structured, so stderr must not be mixed into it
	ReportsRequests  bool   // the output shows when a request to the model is active, so the run can be stopped between requests
	EndsOnSIGTERM    bool   // if the supervisor is killed, the program ends by itself after SIGTERM, and UsageFile says what it has used
	Format           Format
}

// File is a file in the run's directory.
type File struct {
	Name       string
	Data       string
	Executable bool
	Secret     bool // the file is removed at the end of the run, or after the start if it is Command.StdinFile
}

// MaxArgument is the maximum length of an argument of a program, in bytes (MAX_ARG_STRLEN on Linux, without the final
// NUL).
const MaxArgument = 128<<10 - 1

// checkArguments returns INVALID_ARGUMENT if the operating system would refuse an argument. hint says what the user can do about a
// long one.
func checkArguments(argv []string, hint string) error {
	for i, a := range argv {
		if len(a) > MaxArgument {
			return fleet.InvalidField("task_description",
				"argument %d of %s would be %d bytes long, and the limit is %d: %s", i, argv[0], len(a), MaxArgument, hint)
		}
		if strings.ContainsRune(a, 0) {
			return fleet.InvalidField("task_description",
				"the text for %s contains a zero byte, which an argument of a program cannot contain: remove it", argv[0])
		}
	}
	return nil
}
