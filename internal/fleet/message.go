package fleet

import (
	"time"
)

// Message is a follow-up to a running task. The store keeps it until it has been delivered to the agent. So it is not lost
// if the process that accepted it ends: any process that follows the task can deliver it.
type Message struct {
	ID        string
	TaskID    string
	Text      string
	CreatedAt time.Time
	GivenAt   time.Time // when it was delivered; zero if it has not been

	// Refused is the reason why it will never be delivered, and RefusedText says the same for people. Both are empty if it
	// was delivered or still can be.
	Refused     Reason
	RefusedText string
}

// Open reports whether the message is still to be delivered.
func (m *Message) Open() bool { return m.GivenAt.IsZero() && m.Refused == "" }
