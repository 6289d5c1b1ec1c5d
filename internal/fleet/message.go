package fleet

import (
	"time"
)

// Message is a follow-up to a running task. The store keeps it until it has been delivered to the agent. So it is not lost
// if the process that accepted it ends: any process that follows the task can deliver it.
type Message struct {
	ID          string
	TaskID      string
	Text        string
	CreatedAt   time.Time
	DeliveredAt time.Time // when it was delivered; zero if it has not been

	// FromTask is the id of the delegated task whose result the message is; empty for a message of a caller. If the agent cannot
	// get the result while it works, the result becomes a part of the prompt with which the task goes on.
	FromTask string
	// Turn is the try whose prompt contains the message; 0 if no prompt contains it, and NextTurn if it waits for a prompt.
	Turn int

	// RefusalReason is the reason why the message will never be delivered, and RefusalText says the same for people. Both are
	// empty if it was delivered or still can be.
	RefusalReason Reason
	RefusalText   string
}

// NextTurn is the Turn of a message that the agent cannot get while it works.
const NextTurn = -1

// Open reports whether the message is still to be delivered.
func (m *Message) Open() bool { return m.DeliveredAt.IsZero() && m.RefusalReason == "" }

// Deliverable reports whether the message is still to be delivered to a running task.
func (m *Message) Deliverable() bool { return m.Open() && m.Turn == 0 }
