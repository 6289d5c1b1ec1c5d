package fleet

import "time"

// Pause says that no task of the fleet starts, and why.
type Pause struct {
	By     string    `json:"by"` // name of the principal
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// PauseKind is the kind of the resource that is a pause. There is at most one.
const PauseKind ResourceKind = "pause"

// PauseName is the name of the pause.
const PauseName = "fleet"

// MaxPauseReason is the longest reason of a pause, in bytes.
const MaxPauseReason = 1000

// ReadPause returns the pause of the fleet; nil if the fleet is not paused.
func ReadPause(tx ReadTx) (*Pause, error) {
	return ReadResource[Pause](tx, PauseKind, PauseName)
}

// String says who has paused the fleet, and why.
func (p *Pause) String() string {
	text := "the fleet was paused by " + p.By
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// Refusal returns the error for a call that would start a task during the pause.
func (p *Pause) Refusal() *Error {
	return Errorf(ReasonFleetPaused, "%s", p).With("by", p.By).Next("{queue_task} queues a task until an admin calls {resume_fleet}").After(LimitRetryAfter)
}
