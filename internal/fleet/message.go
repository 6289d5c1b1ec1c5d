package fleet

import (
	"time"
)

// Message is a follow-up to a task that runs. It is kept until the agent has it, so that it outlives the process that
// took it: whoever follows the task gives it to the agent.
type Message struct {
	ID        string
	TaskID    string
	Text      string
	CreatedAt time.Time
	GivenAt   time.Time // when the agent had it; zero: not yet

	// Refused is why the agent will never have it, and RefusedText the same in words; empty: it may.
	Refused     Reason
	RefusedText string
}

// Open says whether the message is still to be given to the agent.
func (m *Message) Open() bool { return m.GivenAt.IsZero() && m.Refused == "" }
