package cli

import (
	"fmt"

	fleetv1 "fleet/gen/fleet/v1"
)

// showChecks adds how the task's checks went to the card.
func (s *session) showChecks(c *card, t *fleetv1.TaskDetail) {
	if tries := t.GetChecks().GetTries(); tries > 1 {
		c.line("Tries", fmt.Sprint(tries))
	}
	for _, check := range t.GetChecks().GetResults() {
		status := check.GetStatus().String()
		c.line("Check", paint(s.screen.onOut.colored(s.noColor), colorOf(check.GetStatus()), status)+inParens(checkEnd(check))+": "+printable(oneLine(check.GetCommand())))
	}
	for _, check := range t.GetChecks().GetResults() {
		if check.GetStatus() != fleetv1.TaskCheck_passed {
			c.text("Check said", "$ "+oneLine(check.GetCommand())+"\n"+check.GetOutput())
		}
	}
}

// checkEnd says how a check ended that did not pass.
func checkEnd(c *fleetv1.TaskCheck) string {
	switch {
	case c.GetStatus() == fleetv1.TaskCheck_passed:
		return ""
	case c.ExitCode != nil:
		return fmt.Sprintf("exit code %d", c.GetExitCode())
	}
	return c.GetReason()
}
