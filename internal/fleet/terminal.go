package fleet

import (
	"context"
	"regexp"
)

// AttachedTerminal describes the terminal of a person who uses an agent's program. The agent has a task meanwhile, so limits, stops,
// deletion and restarts of servers affect the program as they affect a task. The task also keeps the agent from running anything
// else.
type AttachedTerminal struct {
	By      string `json:"by"`      // name of the principal
	Type    string `json:"type"`    // for the variable TERM
	Columns uint16 `json:"columns"` // the size at the beginning
	Rows    uint16 `json:"rows"`
}

const maxTerminalType = 64 // in bytes

var terminalTypePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// Validate returns INVALID_ARGUMENT if the size or the type of the terminal is not valid.
func (a *AttachedTerminal) Validate() error {
	switch {
	case a.Columns == 0 || a.Rows == 0:
		return InvalidField("columns", "columns and rows are the size of the terminal, 1 to 65535 each")
	case len(a.Type) > maxTerminalType || !terminalTypePattern.MatchString(a.Type):
		return InvalidField("term", "term is %q: give the type of the terminal, such as xterm-256color", Shorten(a.Type, 60))
	}
	return nil
}

// TerminalInput is something that comes from a person's terminal.
type TerminalInput struct {
	Data          []byte // what the person types
	Columns, Rows uint16 // the new size of the terminal; 0 if it has not changed
}

// Attacher is implemented by a place where a person can use the program of an agent on a terminal.
type Attacher interface {
	// CheckAttach returns UNIMPLEMENTED, with what to do instead, if nobody can use the agent's program on a terminal. It
	// sends no request.
	CheckAttach(a Agent) error

	// Attach connects a terminal with a run with TaskOptions.Attached. It waits until Dispatch has started the run, passes on
	// input and output, and returns nil when the run's program has ended. The run ends when the input is closed, ctx is done or
	// output returns an error, because nobody uses the terminal any more. The error is AGENT_BUSY if a terminal was
	// connected with the run before.
	Attach(ctx context.Context, a Agent, r Run, input <-chan TerminalInput, output func([]byte) error) error
}

// CheckAttach returns UNIMPLEMENTED if nobody can use the program of an agent of the place on a terminal.
func CheckAttach(p Place, a Agent) error {
	if c, ok := p.(Attacher); ok {
		return c.CheckAttach(a)
	}
	return errNoTerminals(p)
}

func errNoTerminals(p Place) *Error {
	return Errorf(ReasonUnimplemented, "agents of the place %q have no program that a person can use on a terminal", p.Traits().Name)
}

// Attach works like Attacher.Attach. The error is UNIMPLEMENTED if the place is not an Attacher.
func Attach(ctx context.Context, p Place, a Agent, r Run, input <-chan TerminalInput, output func([]byte) error) error {
	if c, ok := p.(Attacher); ok {
		return c.Attach(ctx, a, r, input, output)
	}
	return errNoTerminals(p)
}
