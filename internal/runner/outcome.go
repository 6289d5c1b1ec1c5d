package runner

import (
	"context"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// maxSummary is how much of a run's summary file is read, in bytes. It also limits the summary.
const maxSummary = 4000

// maxUsageFile is how much of driver.UsageFile is read, in bytes.
const maxUsageFile = 64 << 10

// maxStderr is how much of the end of a program's stderr is searched for the reason of a failure, in bytes.
const maxStderr = 8 << 10

// concludeRun returns the outcome of an ended run. It also stores the conversation that the agent's next run continues.
func (host *Host) concludeRun(h Home, f *follower, exit *shim.Exit) (fleet.Outcome, error) {
	run := f.run
	stderr, err := run.Tail("stderr", maxStderr)
	if err != nil {
		return fleet.Outcome{}, HostError("cannot read the run's output", err)
	}
	usage, err := run.Head(shim.FilesDir+"/"+driver.UsageFile, maxUsageFile)
	if err != nil {
		return fleet.Outcome{}, HostError("cannot read what the run has used", err)
	}
	result := f.parser.Result(driver.Exit{Code: exit.Code, Signal: exit.Signal, Stderr: driver.CleanText(stderr), Usage: usage})
	if record := driver.SessionPattern(f.format.ConversationPattern, f.format.NewSessionID); record != "" {
		if found, err := sandbox.Find(context.Background(), record); err == nil && found == "" {
			result.Session = "" // the program saves a conversation only when the person has said something
		}
	}
	if err := h.storeConversation(f.format, result); err != nil {
		return fleet.Outcome{}, HostError("cannot write the agent's conversation", err)
	}
	o := result.Outcome
	o.EndedAt, o.HasConversation, o.SessionID = exit.EndedAt, result.Session != "", driver.ConversationID(result.Session)
	summary, err := run.Head(summaryFile, maxSummary)
	if err != nil {
		return fleet.Outcome{}, HostError("cannot read the run's summary", err)
	}
	if s := strings.TrimSpace(driver.CleanText(summary)); s != "" {
		o.Summary = strings.ToValidUTF8(s[:min(len(s), maxSummary)], "") // the limit may split a character
	}
	for _, name := range []string{payloadFile, "output"} {
		if name == "output" && f.format.Kind != "text" {
			break // the output is structured, and the parser has found the payload in it
		}
		excerpt, err := run.Excerpt(name, host.config.MaxPayloadOutput)
		if err != nil {
			return fleet.Outcome{}, HostError("cannot read the run's payload", err)
		}
		if len(excerpt.Data) > 0 {
			o.Payload, o.Gap = excerpt.Data, fleet.Gap{Offset: excerpt.GapOffset, Size: excerpt.GapSize}
			break
		}
	}
	switch exit.End {
	case shim.Deadline:
		o.Status = fleet.TaskFailed
		o.Reason = "it ran longer than its time limit of " + f.spec.Timeout.String()
	case shim.Interrupted, shim.Lost, shim.NotStarted:
		if o.Reported { // before it was interrupted
			break
		}
		o.Status, o.Reason = fleet.TaskFailed, exit.Reason
		switch exit.End {
		case shim.Interrupted:
			o.Status = fleet.TaskStopped
		case shim.Lost:
			o.ReasonCode = fleet.CodeRunnerLost
		}
	}
	if exit.Problem != "" && o.Status == fleet.TaskFailed {
		o.Reason += " (" + exit.Problem + ")"
	}
	return o, nil
}
