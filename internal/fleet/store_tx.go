package fleet

// AgentReader reads agents.
type AgentReader interface {
	// Agent returns the agent, even if it is deleted.
	Agent(uid string) (*Agent, error)

	// Agents returns the matching agents, sorted by name and owner.
	Agents(f AgentFilter) ([]*Agent, error)

	// AgentViews returns the matching agents and their running tasks.
	AgentViews(f AgentViewFilter) ([]*AgentView, error)

	// Holdings returns how many agents, tasks and bytes the owner has. The limits hold even if several transactions add something at
	// the same time, provided that each of them calls Holdings and adds only as much as the limits allow. If all limits are 0,
	// concurrent transactions may change the result.
	Holdings(owner string, l Limits, c HoldingsScope) (Holdings, error)

	// ProjectHoldings returns how much the project has, whoever owns it.
	ProjectHoldings(project string) (ProjectHoldings, error)

	// Remains returns what the store keeps of an agent that is deleted or is being deleted, without the bundle.
	Remains(uid string) (*Remains, error)

	// RemainsWithBundle works like Remains, and also reads the bundle.
	RemainsWithBundle(uid string) (*Remains, error)

	// ChangedAgents returns the agents that have events after seq, and those with the other uids, each once. It also returns
	// the Seq of the newest event. It ignores output events. An agent has LeasedElsewhere set while an owner other than worker
	// has its lease.
	ChangedAgents(after int64, others []string, worker string) (changed []ChangedAgent, last int64, err error)
}

// ChangedAgent is an agent that may have changed, as AgentReader.ChangedAgents returns it.
type ChangedAgent struct {
	UID             string
	LeasedElsewhere bool // a worker of another process has the lease on the agent
}

// TaskReader reads tasks.
type TaskReader interface {
	Task(id string) (*Task, error)

	// RunningTask returns the agent's task that runs.
	RunningTask(agentUID string) (*Task, error)

	// Queue returns the matching tasks, in the order in which they were queued.
	Queue(f QueueFilter) ([]*QueuedTask, error)

	// Tasks returns a page of the agent's tasks, newest first, and the number of all its tasks. The descriptions contain only
	// the first 4 KiB.
	Tasks(agentUID string, limit, offset int) (tasks []*Task, total int, err error)

	// FindTasks returns the page of matching tasks that the window selects, newest first, and counts the matching tasks. The
	// descriptions contain only the first 4 KiB.
	FindTasks(f TaskFilter, w TaskWindow) (FoundTasks, error)

	// Usage sums up the usage of the matching tasks by the key. It returns at most limit rows, sorted by cost and then by
	// number of tasks, highest first, and the sum of all tasks.
	Usage(f TaskFilter, by UsageKey, limit int) (rows []UsageRow, total UsageRow, err error)

	// TaskIDs returns the task ids that begin with the prefix, sorted, at most limit. It uses only Owner, SharedUIDs and
	// Projects of the filter. An empty prefix matches nothing.
	TaskIDs(prefix string, f TaskFilter, limit int) ([]string, error)

	// LastTasks returns the newest task of each of these agents, in any order. It leaves out agents without tasks.
	LastTasks(agentUIDs []string) ([]*Task, error)

	// DispatchedTasks returns the tasks that the agent has got, at most limit, the last dispatch first and the running task before all
	// others. A task that waits for its next try has no time of a dispatch, so it is sorted by the time of its creation.
	DispatchedTasks(agentUID string, limit int) ([]*Task, error)

	// SessionTasks returns the newest tasks of the session, at most limit, oldest first.
	SessionTasks(sessionID string, limit int) ([]*Task, error)

	// Payload returns the task's payload.
	Payload(taskID string) ([]byte, error)

	// PackedPayload returns the task's payload compressed by gzip, as it is stored: one gzip member if the payload was stored by
	// one Put, and several if pieces were added.
	PackedPayload(taskID string) ([]byte, error)

	// Changes returns the recorded changes of the task.
	Changes(taskID string) (*Changes, error)

	// Checks returns the recorded state of the task's checks.
	Checks(taskID string) (*TaskChecks, error)

	// Landings returns the matching landings, in any order.
	Landings(f LandingFilter) ([]*Landing, error)

	// Reviews returns the reviews of the task, oldest first.
	Reviews(taskID string) ([]*Review, error)

	// Attachments returns the attachments of the task in their order, with their contents.
	Attachments(taskID string) ([]Attachment, error)

	// AttachmentsWithoutContent works like Attachments, but leaves Content nil.
	AttachmentsWithoutContent(taskID string) ([]Attachment, error)
}

// MessageReader reads messages to tasks, and questions of tasks.
type MessageReader interface {
	// Messages returns the matching messages, oldest first.
	Messages(f MessageFilter) ([]*Message, error)

	// Questions returns a page of the matching questions, newest first, and the number of all matching questions.
	Questions(f QuestionFilter, limit, offset int) (questions []*Question, total int, err error)
}

// EventReader reads the event log and remembered requests.
type EventReader interface {
	// Events returns the matching events that the window selects, oldest first. If the filter has an agent's uid or a task,
	// the events are complete. Otherwise a transaction may see a change shortly before its event appears in the log.
	Events(f EventFilter, w EventWindow) ([]Event, error)

	// LastSeq returns the Seq of the newest event; 0 if the log is empty.
	LastSeq() (int64, error)

	// Request returns the principal's remembered request with the id.
	Request(principal, id string) (*Request, error)
}

// SessionReader reads sessions and registered tools.
type SessionReader interface {
	// Session returns the session with the key.
	Session(k SessionKey) (*Session, error)

	// Sessions returns the open sessions of the owner in the toolset, the last used first. An empty owner means all owners.
	Sessions(toolset Toolset, owner string) ([]*Session, error)

	// Tools returns the tools that the owner has registered, sorted by their first registration.
	Tools(owner string) ([]*RegisteredTool, error)
}

// ResourceReader reads resources.
type ResourceReader interface {
	// Resources returns the matching resources, sorted by name.
	Resources(f ResourceFilter) ([]*Resource, error)
}

// LedgerReader reads the ledger of budgets.
type LedgerReader interface {
	// Ledger returns the matching parts of the ledger. Until this transaction ends, no other transaction adds entries to the
	// budgets whose totals this one has read.
	Ledger(f LedgerFilter) (Ledger, error)
}

// TokenReader reads tokens.
type TokenReader interface {
	// Tokens returns the matching tokens, sorted by name and then from the oldest to the newest.
	Tokens(f TokenFilter) ([]*Token, error)
}

// IdentityReader reads identities.
type IdentityReader interface {
	// Identity returns the identity with the key.
	Identity(k IdentityKey) (*Identity, error)
}

// First returns the first of the rows that a read has returned, or nil if there are none. It returns the error of the read unchanged.
func First[T any](rows []*T, err error) (*T, error) {
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}
