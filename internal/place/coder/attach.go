package coder

import (
	"context"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

// CheckAttach implements fleet.Attacher. It always returns an error: people open a terminal in a workspace with Coder's own
// tools, under their own Coder account.
func (p *Place) CheckAttach(a fleet.Agent) error {
	program := "the agent's program"
	if a.SessionID != "" {
		program = fmt.Sprintf("the agent's program with its session %s (for example \"claude --resume %s\")", a.SessionID, a.SessionID)
	}
	return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q works in the Coder workspace %s: open it with \"coder ssh %s\", and start %s there while the agent is idle",
		a.Name, a.Location, a.Location[strings.LastIndex(a.Location, "@")+1:], program)
}

// Attach implements fleet.Attacher. It always returns the error of CheckAttach.
func (p *Place) Attach(_ context.Context, a fleet.Agent, _ fleet.Run, _ <-chan fleet.TerminalInput, _ func([]byte) error) error {
	return p.CheckAttach(a)
}
