package driver

import (
	"fmt"

	"fleet/internal/fleet"
)

// exitOutcome returns an outcome with the status completed if the program ended with exit code 0, and otherwise failed. detail is the
// program's last text or error; it becomes a part of the reason of a failure.
func exitOutcome(e Exit, detail string) fleet.Outcome {
	o := fleet.Outcome{Status: fleet.TaskCompleted}
	if e.Code >= 0 {
		o.ExitCode = &e.Code
	}
	if e.Code != 0 {
		o.Status, o.Reason = fleet.TaskFailed, describeEnd(e, detail)
	}
	return o
}

// describeEnd describes an abnormal end of the program. It shortens detail.
func describeEnd(e Exit, detail string) string {
	text := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		text = "ended by signal " + e.Signal
	}
	if detail = reasonText(detail); detail != "" {
		text += ": " + detail
	}
	return text
}

// addFinalText adds the agent's final text to the outcome: shortened as the summary, and in full as the payload.
func addFinalText(o *fleet.Outcome, text string) {
	o.Summary = shorten(cleanString(text), maxSummary)
	if text != "" {
		o.Payload = []byte(text)
	}
}

// setFailed turns the outcome into a failure with the reason.
func setFailed(o *fleet.Outcome, reason string) {
	o.Status, o.Reason = fleet.TaskFailed, reason
}
