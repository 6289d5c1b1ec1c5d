package state

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// RecordUsageLimit records in the agent's credential a usage limit that a run of the agent has reported.
func RecordUsageLimit(tx fleet.Tx, a *fleet.Agent, l fleet.UsageLimit, now time.Time) error {
	return changeAgentCredential(tx, a, now, func(c *fleet.Credential) string {
		if !c.RecordLimit(l, now) {
			return ""
		}
		return fmt.Sprintf("the %s of the credential %s is %.0f%% used", l.Text(), c.Name, 100*l.Utilization)
	})
}

// recordCredentialOutcome updates the agent's credential after a run: whether it works again, has a used-up usage window, or is
// held. It must be called before the task is changed.
func recordCredentialOutcome(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time) error {
	switch code := o.ReasonCode; {
	case o.Status == fleet.TaskCompleted:
		return changeAgentCredential(tx, a, now, func(c *fleet.Credential) string {
			if !c.RecordSuccess(t.StartedAt) {
				return ""
			}
			return fmt.Sprintf("the credential %s works again", c.Name)
		})
	case o.Status != fleet.TaskFailed:
	case code == fleet.CodeUsageWindow:
		return changeAgentCredential(tx, a, now, func(c *fleet.Credential) string {
			if w := c.UsedUpWindow(now); w != nil || !c.RecordLimit(fleet.UsageLimit{Reached: true, ResetsAt: o.RetryAt}, now) {
				return ""
			}
			return fmt.Sprintf("a usage window of the credential %s is used up", c.Name)
		})
	case code.Retry() == fleet.RetryHeld:
		return changeAgentCredential(tx, a, now, func(c *fleet.Credential) string {
			if c.Hold != nil {
				return ""
			}
			c.Hold = &fleet.CredentialHold{Code: code, Reason: fleet.Shorten(o.Reason, fleet.MaxRowSummary), TaskID: t.ID, At: now}
			return fmt.Sprintf("the credential %s is held: %s", c.Name, c.Hold.Reason)
		})
	}
	return nil
}

// changeAgentCredential works like ChangeCredential, for the agent's credential. It does nothing if the agent has none.
func changeAgentCredential(tx fleet.Tx, a *fleet.Agent, now time.Time, change func(*fleet.Credential) string) error {
	if a.Host.Credential == "" {
		return nil
	}
	return ChangeCredential(tx, a.Host.Credential, now, func(c *fleet.Credential, _ bool) string { return change(c) })
}

// ChangeCredential changes the stored state of the credential with the name, and appends an event. stored says whether the store
// has a state. change returns the text of the event. If the text is empty, ChangeCredential writes nothing.
func ChangeCredential(tx fleet.Tx, name string, now time.Time, change func(c *fleet.Credential, stored bool) string) error {
	c, err := fleet.ReadResource[fleet.Credential](tx, fleet.CredentialKind, name)
	if err != nil {
		return err
	}
	stored := c != nil
	if !stored {
		c = &fleet.Credential{Name: name}
	}
	text := change(c, stored)
	if text == "" {
		return nil
	}
	if err := fleet.PutResource(tx, fleet.CredentialKind, name, c); err != nil {
		return err
	}
	return tx.Append(&fleet.Event{Time: now, Type: fleet.EventFleetChanged, Text: text})
}
