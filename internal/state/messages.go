package state

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// RefuseMessage records that the message will never be delivered. r is the reason, and text says the same for people.
func RefuseMessage(tx fleet.Tx, t *fleet.Task, m *fleet.Message, now time.Time, r fleet.Reason, text string) error {
	m.RefusalReason, m.RefusalText = r, text
	if err := tx.Update(m); err != nil {
		return err
	}
	return tx.Append(t.Event(fleet.EventTaskStep, now, "a message was not delivered to the agent: "+text))
}

// refuseMessages records that the task's undelivered messages will not be delivered, because the task ends.
func refuseMessages(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if !t.HasMessages {
		return nil
	}
	all, err := tx.Messages(fleet.MessageFilter{TaskID: t.ID})
	for _, m := range all {
		if err == nil && m.Open() {
			text := fmt.Sprintf("the task of agent %q ended before the message was delivered: start a new task", t.AgentName)
			err = RefuseMessage(tx, t, m, now, fleet.ReasonNoRunningTask, text)
		}
	}
	return err
}
