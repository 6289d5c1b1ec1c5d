package cli

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

// checkFlags are the flags that say how the work of a task is checked.
type checkFlags struct {
	commands []string
	retries  int32
	limit    time.Duration
}

func (c *checkFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&c.commands, "check", nil, "the task completes only when `COMMAND` succeeds in the agent's tree; can be repeated")
	cmd.Flags().Int32Var(&c.retries, "retries", 1, "the agent may try again `N` times when checks fail")
	cmd.Flags().DurationVar(&c.limit, "check-timeout", 10*time.Minute, "a check may take `DURATION`")
	for _, name := range []string{"check", "retries", "check-timeout"} {
		complete(cmd, name, cobra.NoFileCompletions)
	}
}

// fill puts what the flags say into the request.
func (c *checkFlags) fill(s *session, req *fleetv1.StartAgentTaskRequest) error {
	req.Checks = c.commands
	if s.cmd.Flags().Changed("retries") {
		req.Retries = &c.retries
	}
	if s.cmd.Flags().Changed("check-timeout") {
		seconds := math.Ceil(c.limit.Seconds())
		if seconds < 1 || seconds > math.MaxInt32 {
			return usagef("the --check-timeout %s must be a second or more", c.limit)
		}
		n := int32(seconds)
		req.CheckTimeoutSeconds = &n
	}
	return nil
}

// showChecks adds how the task's checks went to the card.
func (s *session) showChecks(c *card, t *fleetv1.TaskDetail) {
	if tries := t.GetChecks().GetTries(); tries > 1 {
		c.line("Tries", fmt.Sprint(tries))
	}
	for _, check := range t.GetChecks().GetResults() {
		status := check.GetStatus().String()
		c.line("Check", paint(s.screen.onOut.colored(s.noColor), colorOf(check.GetStatus()), status)+because(checkEnd(check))+": "+printable(oneLine(check.GetCommand())))
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
