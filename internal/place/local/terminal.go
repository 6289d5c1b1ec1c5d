package local

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// CheckAttach implements fleet.Attacher.
func (p *Place) CheckAttach(a fleet.Agent) error {
	proj, err := p.agentProject(a)
	if err != nil {
		return err
	}
	return driver.CheckTerminal(proj.driver, a.HasConversation)
}

// Attach implements fleet.Attacher.
func (p *Place) Attach(ctx context.Context, a fleet.Agent, r fleet.Run, input <-chan fleet.TerminalInput, output func([]byte) error) error {
	return p.runnerOf(a).Attach(ctx, r, input, output)
}
