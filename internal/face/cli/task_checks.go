package cli

import (
	"fmt"

	fleetv1 "fleet/gen/fleet/v1"
)

// showChecks adds the results of the task's checks to the card.
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
			c.text("Check output", "$ "+oneLine(check.GetCommand())+"\n"+check.GetOutput())
		}
	}
}

// checkEnd returns the exit code of a check that did not pass or, if it has none, the reason. For a passed check it
// returns "".
func checkEnd(c *fleetv1.TaskCheck) string {
	switch {
	case c.GetStatus() == fleetv1.TaskCheck_passed:
		return ""
	case c.ExitCode != nil:
		return fmt.Sprintf("exit code %d", c.GetExitCode())
	}
	return c.GetReason()
}
