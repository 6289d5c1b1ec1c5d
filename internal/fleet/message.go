package fleet

import "time"

// Message is a text for the agent of a task that has started: a follow-up of a caller, or the result of a delegated task. It is in
// the store before it is delivered, so it is not lost if the process that accepted it ends: any process that follows the task
// can deliver it.
type Message struct {
	ID          string
	TaskID      string
	Text        string
	CreatedAt   time.Time
	DeliveredAt time.Time // when it was delivered; zero if it has not been

	// FromTask is the id of the delegated task whose result the message is; empty for a message of a caller. If the agent cannot
	// get the result while it works, the result becomes a part of the prompt with which the task goes on.
	FromTask string
	// PromptTry is the try whose prompt contains the message; 0 if no prompt contains it, and NextPrompt if it waits for the next prompt.
	PromptTry int

	// RefusalReason is the reason why the message will never be delivered, and RefusalText says the same for people. Both are
	// empty if it was delivered or still can be.
	RefusalReason Reason
	RefusalText   string
}

// NextPrompt is the PromptTry of a message that the agent cannot get while it works.
const NextPrompt = -1

// Open reports whether the message is still to be delivered.
func (m *Message) Open() bool { return m.DeliveredAt.IsZero() && m.RefusalReason == "" }

// Deliverable reports whether the message is still to be delivered to the agent while it works, and not with a prompt.
func (m *Message) Deliverable() bool { return m.Open() && m.PromptTry == 0 }
