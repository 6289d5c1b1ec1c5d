package fleet

import (
	"cmp"
	"fmt"
	"time"
)

// Delegation describes a task as a part of a tree of delegated tasks: what its parent has decided about it, and what it delegates
// itself. Task.ParentID and Task.RootID say where it is in the tree.
type Delegation struct {
	Depth    int    `json:"depth,omitempty"`    // number of tasks above it
	Detached bool   `json:"detached,omitempty"` // it goes on when its parent ends
	Wake     Wake   `json:"wake,omitempty"`     // what its end means for its parent
	Limit    Micros `json:"limit,omitempty"`    // the cost limit that its parent sets; 0: no limit
	// ReservedTry is the try of the parent, from 1, whose reservation includes Limit; 0 if there is none. When this task starts and
	// first makes its own reservations, that try becomes TakenTry.
	ReservedTry int `json:"backed,omitempty"`
	TakenTry    int `json:"taken,omitempty"`
	MaxRunning  int `json:"max_running,omitempty"` // how many tasks below the root may run at once; 0: no limit

	Grant           *Grant `json:"grant,omitempty"`    // what its agent may delegate, as of the last dispatch; nil: nothing
	Children        int    `json:"children,omitempty"` // number of tasks that it has delegated
	AwaitedChildren int    `json:"awaited,omitempty"`  // number of its children that have not ended and for which it waits, see Wake.Awaited
	GivenToChildren Micros `json:"given,omitempty"`    // the limits of its children that have not ended, and the cost of those that have
	Waits           bool   `json:"waits,omitempty"`    // its turn is over, and it waits for results
	Ready           bool   `json:"ready,omitempty"`    // the results that it waits for have arrived
	// Conversation is the agent's conversation in which the task runs, and in which it continues after it was pending again. See
	// Agent.Conversation. Tasks that are in no tree have it too.
	Conversation string `json:"conversation,omitempty"`
	WokenTry     int    `json:"woken_try,omitempty"` // the try in which it has gone on, or will go on, with results

	// Only a root has these.
	Total        int         `json:"total,omitempty"` // number of tasks below it
	RecentStarts []time.Time `json:"made,omitempty"`  // when the tasks of the last minute were delegated
}

// IsZero reports whether the task belongs to no tree, may not delegate, and has no conversation with a name.
func (d *Delegation) IsZero() bool {
	return d.Depth == 0 && d.Grant == nil && d.Children == 0 && d.Total == 0 && !d.Waits && d.WokenTry == 0 && d.Conversation == ""
}

// CapLimit returns the lower of the limit and of d.Limit, the limit that the parent sets. 0 means no limit.
func (d *Delegation) CapLimit(limit Micros) Micros {
	if d.Limit > 0 && (limit == 0 || d.Limit < limit) {
		return d.Limit
	}
	return limit
}

// ParentEndAction says what happens to a delegated task when its parent ends.
type ParentEndAction string

// The values of ParentEndAction.
const (
	ParentEndStop   ParentEndAction = "stop" // the default
	ParentEndDetach ParentEndAction = "detach"
)

// Wake says what the end of a delegated task means for its parent.
type Wake string

// The values of Wake.
const (
	WakeAll   Wake = "all"  // a parent whose turn is over goes on when all such tasks have ended
	WakeEach  Wake = "each" // such a parent goes on when this task has ended
	WakeNone  Wake = "none" // the parent does not wait, but gets the result with its next turn
	WakeQuiet Wake = ""     // the parent gets the result in another way: as the answer to the call that has delegated the task
)

// wakes are the values of Wake that a caller can choose.
var wakes = []Wake{WakeAll, WakeEach, WakeNone}

// ParseWake returns the Wake that a caller has chosen; WakeAll if the text is empty. It returns INVALID_ARGUMENT if a caller cannot
// choose the value.
func ParseWake(text string) (Wake, error) {
	w := cmp.Or(Wake(text), WakeAll)
	return w, checkOneOf("wake", w, wakes)
}

// Awaited reports whether a parent whose turn is over waits for the task.
func (w Wake) Awaited() bool { return w == WakeAll || w == WakeEach }

// Root returns the id of the root of the task's tree, which may be the task itself.
func (t *Task) Root() string {
	if t.RootID != "" {
		return t.RootID
	}
	return t.ID
}

// DelegationRefused returns the error for a task that a grant does not allow. limit names the limit of the grant, used is how much of
// it is used, and most is the limit itself. For a limit that is not a number, used is 0.
func DelegationRefused(limit string, used, most any, format string, args ...any) *Error {
	return Errorf(ReasonDelegationRefused, format, args...).With("limit", limit).With("used", fmt.Sprint(used)).With("max", fmt.Sprint(most))
}
