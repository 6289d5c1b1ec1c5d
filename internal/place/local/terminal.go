package local

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
)

// CheckAttach implements fleet.Attacher.
func (b *Place) CheckAttach(a fleet.Agent) error {
	p, err := b.kind(a)
	if err != nil {
		return err
	}
	return driver.CheckTerminal(p.driver, a.Conversed)
}

// Attach implements fleet.Attacher.
func (b *Place) Attach(ctx context.Context, a fleet.Agent, r fleet.Run, input <-chan fleet.TerminalInput, output func([]byte) error) error {
	h := b.home(a.UID)
	return b.host.Agent(a.Name, runner.Home(h), workspace{b, a, h}).Attach(ctx, r, input, output)
}
