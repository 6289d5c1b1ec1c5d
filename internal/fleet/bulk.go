package fleet

import "time"

// BulkKind is the kind of the resources that are plans of bulk operations.
const BulkKind ResourceKind = "bulk"

// MaxBulkItems is the largest number of items of a bulk operation.
const MaxBulkItems = 10_000

// BulkOperation is what a bulk operation does with each of its agents or tasks.
type BulkOperation string

// The operations. All are on agents, except BulkStopTask.
const (
	BulkStart    BulkOperation = "start"
	BulkStop     BulkOperation = "stop"
	BulkRestart  BulkOperation = "restart"
	BulkDelete   BulkOperation = "delete"
	BulkMessage  BulkOperation = "message"
	BulkLabel    BulkOperation = "label"
	BulkQueue    BulkOperation = "queue"
	BulkMove     BulkOperation = "move"
	BulkStopTask BulkOperation = "stop_task"
)

// BulkRequest says what to do, and with which agents or tasks.
type BulkRequest struct {
	Operation BulkOperation `json:"operation"`

	// Names, Selector or All selects the agents or tasks. Names are names of agents. For BulkStopTask, they may also be ids of
	// tasks.
	Names    []string `json:"names,omitempty"`
	Selector string   `json:"selector,omitempty"`
	All      bool     `json:"all,omitempty"`

	Text         string        `json:"text,omitempty"`         // of the message or the task
	Labels       Labels        `json:"labels,omitempty"`       // of the agents or the queued tasks
	RemoveLabels []string      `json:"remove,omitempty"`       // keys of labels
	Pool         string        `json:"pool,omitempty"`         // to move to; empty: out of the pool
	Role         string        `json:"role,omitempty"`         // after a restart; empty: the agent keeps its role
	Update       bool          `json:"update,omitempty"`       // a restart uses the newest version of the project
	KeepUnsaved  bool          `json:"keep_unsaved,omitempty"` // do not delete an agent with unsaved work
	Priority     int           `json:"priority,omitempty"`     // of the queued tasks
	Timeout      time.Duration `json:"timeout,omitempty"`      // of the queued tasks; 0: the default
	MaxCostUSD   *float64      `json:"max_cost_usd,omitempty"` // of the queued tasks; nil: no limit
}

// BulkPlan is a plan of a bulk operation, with the outcomes of its items so far.
type BulkPlan struct {
	ID              string      `json:"id"`
	Principal       string      `json:"principal"`       // who planned it
	PlannedAtMicros int64       `json:"at"`              // when it was planned, in microseconds since 1970; determines when the plan is removed
	Begun           bool        `json:"begun,omitempty"` // its execution has begun
	Request         BulkRequest `json:"order"`           // without Names, which have become Items
	Items           []BulkItem  `json:"items"`
}

// BulkItem is an agent or a task of a bulk operation.
type BulkItem struct {
	AgentUID  string      `json:"uid,omitempty"` // empty for a task that has no agent yet
	AgentName string      `json:"name,omitempty"`
	Owner     string      `json:"owner,omitempty"`
	TaskID    string      `json:"task_id,omitempty"` // of the task that the operation stops, messages or has queued; empty: none
	Effect    string      `json:"effect,omitempty"`  // for people
	Outcome   BulkOutcome `json:"outcome,omitempty"`
	Reason    Reason      `json:"reason,omitempty"` // why it failed
	Message   string      `json:"message,omitempty"`
	Tries     int         `json:"tries,omitempty"` // how often it failed for a reason that may pass
}

// BulkOutcome says what happened to an item.
type BulkOutcome string

// The outcomes. The last three are final.
const (
	BulkPending   BulkOutcome = ""
	BulkDone      BulkOutcome = "done"
	BulkUnchanged BulkOutcome = "unchanged" // nothing had to be done
	BulkFailed    BulkOutcome = "failed"
)

// Count returns the number of items with the outcome.
func (b *BulkPlan) Count(o BulkOutcome) (n int) {
	for _, i := range b.Items {
		if i.Outcome == o {
			n++
		}
	}
	return n
}
