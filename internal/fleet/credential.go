package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CredentialKind is the kind of the resources that are states of credentials.
const CredentialKind ResourceKind = "credential"

// Credential is what is known about a key or a subscription with which agents use their models. It never has the secret.
// Projects whose agents use the same key or subscription name the same credential, so that what Fleet learns from one task
// applies to all of them.
type Credential struct {
	Name    string          `json:"name"`
	Windows []UsageWindow   `json:"windows,omitempty"` // sorted by name
	Hold    *CredentialHold `json:"hold,omitempty"`    // nil if tasks may start with it
}

// UsageWindow is the newest report about a window of time in which the use of a subscription is limited.
type UsageWindow struct {
	UsageLimit
	At time.Time `json:"at"` // when the report was made
}

// CredentialHold says why no task of the queue starts with a credential until somebody has looked at it.
type CredentialHold struct {
	Code   ReasonCode `json:"code"`
	Reason string     `json:"reason"`
	TaskID string     `json:"task_id"` // the task that failed because of it
	At     time.Time  `json:"at"`
}

const (
	// maxWindowLength is how long a window may last. Programs report windows of at most a week, but a run could report anything.
	maxWindowLength = 8 * 24 * time.Hour
	// unknownWindowLength is how long a window counts as used up if its end is not known.
	unknownWindowLength = 15 * time.Minute
	// clockSkew is how long a window counts as used up if a report says so, although the window has ended by this machine's clock.
	clockSkew = time.Minute
	// minUtilizationChange is the smallest change in the use of a window that is recorded.
	minUtilizationChange = 0.01
	// maxWindows is how many windows of a credential are remembered. Reports about further windows are ignored, unless these are used up:
	// tasks of the queue must wait for them.
	maxWindows = 10
)

// RecordLimit stores in c what a run has reported about a window. It returns false if that changes nothing.
func (c *Credential) RecordLimit(l UsageLimit, now time.Time) bool {
	l.Window = Shorten(l.Window, MaxLabelKey)
	l.Utilization = min(max(l.Utilization, 0), 1)
	if l.Reached {
		l.Utilization = 1
	}
	if limit := now.Add(maxWindowLength); l.ResetsAt.After(limit) {
		l.ResetsAt = limit
	}
	switch {
	case l.Reached && l.ResetsAt.IsZero():
		l.ResetsAt = now.Add(unknownWindowLength)
	case l.Reached && !l.ResetsAt.After(now):
		l.ResetsAt = now.Add(clockSkew)
	}
	i, found := slices.BinarySearchFunc(c.Windows, l.Window, func(w UsageWindow, name string) int { return strings.Compare(w.Window, name) })
	if !found {
		windows := slices.Clone(c.Windows)
		if len(windows) >= maxWindows {
			removed := slices.IndexFunc(windows, func(w UsageWindow) bool { return !w.UsedUp(now) })
			if !l.Reached || removed < 0 {
				return false
			}
			windows = slices.Delete(windows, removed, removed+1)
			if removed < i {
				i--
			}
		}
		c.Windows = slices.Insert(windows, i, UsageWindow{l, now})
		return true
	}
	old := c.Windows[i]
	change := l.Utilization - old.Utilization
	if l.Reached == old.Reached && l.ResetsAt.Equal(old.ResetsAt) && change < minUtilizationChange && change > -minUtilizationChange {
		return false
	}
	c.Windows = slices.Clone(c.Windows)
	c.Windows[i] = UsageWindow{l, now}
	return true
}

// RecordSuccess removes from c what a successful run disproves: the hold and the used-up windows that were reported before runStart,
// when the run began. It returns false if there are none.
func (c *Credential) RecordSuccess(runStart time.Time) (changed bool) {
	if c.Hold != nil && runStart.After(c.Hold.At) {
		c.Hold, changed = nil, true
	}
	if left := slices.DeleteFunc(slices.Clone(c.Windows), func(w UsageWindow) bool { return w.Reached && runStart.After(w.At) }); len(left) < len(c.Windows) {
		c.Windows, changed = left, true
	}
	return changed
}

// Release removes the hold and the windows that are used up, so that tasks can use the credential. It returns false if there
// are none.
func (c *Credential) Release() bool {
	return c.RecordSuccess(time.Unix(1<<40, 0)) // a time after all reports
}

// UsedUpWindow returns the window that is used up now; nil if there is none. Of several windows, it returns the one that ends last.
func (c *Credential) UsedUpWindow(now time.Time) *UsageWindow {
	return c.lastEnding(now, func(w UsageWindow) bool { return w.UsedUp(now) })
}

// ReservedWindow returns the window of which only the share keepFree, or less, is left: the rest is reserved for people. It returns nil
// if there is none, or if keepFree is 0. Of several windows, it returns the one that ends last.
func (c *Credential) ReservedWindow(now time.Time, keepFree float64) *UsageWindow {
	return c.lastEnding(now, func(w UsageWindow) bool { return keepFree > 0 && w.Utilization >= 1-keepFree })
}

// CredentialState says whether tasks of the queue start with a credential.
type CredentialState string

// The states of credentials.
const (
	CredentialOK     CredentialState = "ok"
	CredentialHeld   CredentialState = "held"
	CredentialUsedUp CredentialState = "used_up"
)

// StateAt returns the state at the time.
func (c *Credential) StateAt(now time.Time) CredentialState {
	switch {
	case c.Hold != nil:
		return CredentialHeld
	case c.UsedUpWindow(now) != nil:
		return CredentialUsedUp
	}
	return CredentialOK
}

// Scarce reports whether the credential is held, or at least four fifths of an open window are used.
func (c *Credential) Scarce(now time.Time) bool {
	return c.Hold != nil || c.lastEnding(now, func(w UsageWindow) bool { return w.Utilization >= 0.8 }) != nil
}

// lastEnding returns the window that ends last, among those that are open and for which matches returns true; nil if there is
// none.
func (c *Credential) lastEnding(now time.Time, matches func(UsageWindow) bool) (last *UsageWindow) {
	for i, w := range c.Windows {
		if w.open(now) && matches(w) && (last == nil || w.ResetsAt.After(last.ResetsAt)) {
			last = &c.Windows[i]
		}
	}
	return last
}

// open reports whether the window has not ended.
func (w UsageWindow) open(now time.Time) bool { return w.ResetsAt.After(now) }

// UsedUp reports whether the window is used up now.
func (w UsageWindow) UsedUp(now time.Time) bool { return w.Reached && w.open(now) }

// UsedAt returns the used share of the window at the time, as far as it is known. After the end of the window it is 0.
func (w UsageWindow) UsedAt(now time.Time) float64 {
	if !w.ResetsAt.IsZero() && !w.ResetsAt.After(now) {
		return 0
	}
	return w.Utilization
}

// Refusal returns the error of a call that would start a task with the credential although its window w is used up.
func (c *Credential) Refusal(w *UsageWindow, now time.Time) *Error {
	return Errorf(ReasonCredentialUsedUp, "the %s of the credential %q is used up until %s", w.Text(), c.Name, w.ResetsAt.UTC().Format("2006-01-02 15:04 MST")).
		With("credential", c.Name).With("resets_at", w.ResetsAt.UTC().Format(time.RFC3339)).
		Next("{queue_task} queues a task that waits until then").After(w.ResetsAt.Sub(now))
}

// Waits returns the reasons why no task of the queue may start with the credential. keepFree is the share of each window that
// is left to people.
func (c *Credential) Waits(now time.Time, keepFree float64) (waits []Wait) {
	if h := c.Hold; h != nil {
		waits = append(waits, Wait{Reason: WaitHeld, Subject: c.Name, Since: h.At, Text: fmt.Sprintf("the credential %q is held because a task failed with %s", c.Name, h.Code), Next: "mend it, and then start a task with it at once (`start_agent_task`) to try it, or let an admin release it (`release_credential`)"})
	}
	if w := c.UsedUpWindow(now); w != nil {
		waits = append(waits, Wait{Reason: WaitUsageWindow, Subject: c.Name, Text: fmt.Sprintf("the %s of the credential %q is used up", w.Text(), c.Name), Until: w.ResetsAt})
	} else if w := c.ReservedWindow(now, keepFree); w != nil {
		waits = append(waits, Wait{
			Reason: WaitUsageWindow, Subject: c.Name, Until: w.ResetsAt,
			Text: fmt.Sprintf("the %s of the credential %q is %.0f%% used, and the queue leaves %.0f%% of it to people", w.Text(), c.Name, 100*w.Utilization, 100*keepFree),
		})
	}
	return waits
}
