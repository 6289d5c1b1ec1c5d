package fleet

// AgentReader reads agents.
type AgentReader interface {
	Agent(uid string) (*Agent, error)

	// AgentsByName returns the agents of the name that exist (are not deleted), compared without case, of the owner,
	// or of all owners when owner is empty; by owner.
	AgentsByName(name, owner string) ([]*Agent, error)

	// NewestAgent returns the agent of the fleet's own toolset that was created last under the name, compared without
	// case, of the owner, or of all owners when owner is empty; also a deleted one.
	NewestAgent(name, owner string) (*Agent, error)

	// AgentByWorkspace returns the newest agent that has, or had, the workspace of the place, also a deleted one.
	AgentByWorkspace(place, workspaceID string) (*Agent, error)

	// Agents returns the agents that exist, by name and owner.
	Agents() ([]*Agent, error)

	// AgentViews returns these agents with their active tasks, also deleted agents; those that never were are left out.
	AgentViews(uids []string) ([]*AgentView, error)

	// SharedAgents returns the agents that are shared, also deleted ones, by uid.
	SharedAgents() ([]*Agent, error)

	// LiveAgentViews returns every agent that exists, with its active task.
	LiveAgentViews() ([]*AgentView, error)

	// Holdings returns how much the owner has. It promises that the limits hold while transactions add something at the same time, if each of
	// them asks, and commits only what the limits allow. Without limits it promises nothing.
	Holdings(owner string, l Limits) (Holdings, error)

	// TaskHoldings returns the same without agents: counting thousands of them takes long.
	TaskHoldings(owner string, l Limits) (Holdings, error)

	// OwnAgents returns how many agents of the toolset the owner has. It makes the promise of Holdings for the limit most.
	OwnAgents(owner string, toolset Toolset, most int) (int, error)

	// InProject returns how much is in the project, whoever owns it.
	InProject(project string) (ProjectHoldings, error)

	// Remains returns what is kept of an agent that is deleted, or is about to be; nil when nothing is.
	Remains(uid string) (*Remains, error)

	// Bundle returns the bundle of the agent's remains; nil when there is none.
	Bundle(uid string) ([]byte, error)

	// ChangedAgents returns the uids of the agents that have events after seq which are not output, each once.
	ChangedAgents(after int64) ([]string, error)
}

// AgentWriter writes agents.
type AgentWriter interface {
	// InsertAgent adds an agent. AGENT_EXISTS when its owner has one of that name.
	InsertAgent(a *Agent) error

	// UpdateAgent writes every field of an agent that is there, except its AgentConfig, and sets its Revision.
	UpdateAgent(a *Agent) error

	// PutRemains keeps what is left of an agent, with its bundle, in place of what was kept before. Size follows from the
	// bundle.
	PutRemains(uid string, r *Remains, bundle []byte) error
}

// TaskReader reads tasks.
type TaskReader interface {
	Task(id string) (*Task, error)

	// ActiveTask returns the pending or running task of the agent.
	ActiveTask(agentUID string) (*Task, error)

	// Tasks returns the agent's tasks, newest first, without descriptions beyond the first 4 KiB, and how many there are in all.
	Tasks(agentUID string, limit, offset int) (tasks []*Task, total int, err error)

	// FindTasks returns the tasks of the window that match, newest first, as Tasks does, and counts those that match.
	FindTasks(f TaskFilter, w TaskWindow) (FoundTasks, error)

	// Usage returns what the tasks that match used, by the key: at most limit rows, those with the highest cost first, then
	// those with the most tasks; and what all of them used together.
	Usage(f TaskFilter, by UsageKey, limit int) (rows []UsageRow, total UsageRow, err error)

	// TaskIDs returns the ids that begin with the prefix, of the tasks that match the filter's Owner, Shared and Projects; at most
	// limit, in order. An empty prefix finds nothing.
	TaskIDs(prefix string, f TaskFilter, limit int) ([]string, error)

	// LastTasks returns the newest task of each of these agents that has one, in any order.
	LastTasks(agentUIDs []string) ([]*Task, error)

	// SessionTasks returns the last tasks of the session, at most limit, oldest first.
	SessionTasks(sessionID string, limit int) ([]*Task, error)

	// Payload returns the task's payload; nil when it has none.
	Payload(taskID string) ([]byte, error)

	// PackedPayload returns the task's payload as it is kept, compressed by gzip, in one member where it was put in one
	// piece; nil when it has none.
	PackedPayload(taskID string) ([]byte, error)

	// Changes returns what the task changed; nil when that was not recorded.
	Changes(taskID string) (*Changes, error)

	// Checks returns what is known of the task's checks; nil when nothing is.
	Checks(taskID string) (*TaskChecks, error)
}

// TaskWriter writes tasks.
type TaskWriter interface {
	// InsertTask adds a task. AGENT_BUSY when it is active and its agent has an active one.
	InsertTask(t *Task) error

	// UpdateTask writes every field of a task that is there, and sets its Revision. A task that has ended is never changed.
	UpdateTask(t *Task) error

	// DeleteTask removes a task that has ended, with its payload, its changes, its checks, its messages, its questions and its events. A task that has not ended,
	// or is not there, is an error. The caller appends an event in the same transaction.
	DeleteTask(id string) error

	// PutPayload keeps the task's payload, compressed.
	PutPayload(taskID string, payload []byte) error

	// AppendPayload adds a piece to the end of the task's payload.
	AppendPayload(taskID string, piece []byte) error

	// PutChanges keeps what the task changed, also of a task that has ended, in place of what was kept before.
	PutChanges(taskID string, c *Changes) error

	// PutChecks keeps what is known of the task's checks, also of a task that has ended, in place of what was kept before.
	PutChecks(taskID string, c *TaskChecks) error
}

// MessageReader reads messages to tasks, and questions of tasks.
type MessageReader interface {
	// Message returns a message to a task.
	Message(id string) (*Message, error)

	// Messages returns the messages to the task, oldest first.
	Messages(taskID string) ([]*Message, error)

	// Question returns a question by its id.
	Question(id string) (*Question, error)

	// Questions returns the questions that match, newest first, at most limit, and how many match in all.
	Questions(f QuestionFilter, limit, offset int) (questions []*Question, total int, err error)
}

// MessageWriter writes messages to tasks, and questions of tasks.
type MessageWriter interface {
	// InsertMessage adds a message to a task. One of the same id is an error.
	InsertMessage(m *Message) error

	// UpdateMessage writes what has become of a message that is there. That it was given, or refused, never changes.
	UpdateMessage(m *Message) error

	// InsertQuestion adds a question to a task. One of the same id is an error.
	InsertQuestion(q *Question) error

	// UpdateQuestion writes what has become of a question that is there: its status and its answer. One that is not open
	// never changes.
	UpdateQuestion(q *Question) error
}

// EventReader reads the event log and remembered requests.
type EventReader interface {
	// Events returns the events after seq that match, oldest first, at most limit. A view may show changes whose events
	// come into the log a moment later, but not with a filter for an agent's uid or a task: then its events are complete.
	Events(f EventFilter, after int64, limit int) ([]Event, error)

	// LastEvents returns the newest events that match, at most limit, oldest first.
	LastEvents(f EventFilter, limit int) ([]Event, error)

	// LastSeq returns the Seq of the newest event.
	LastSeq() (int64, error)

	// Request returns what is remembered of the principal's request.
	Request(principal, id string) (*Request, error)
}

// EventWriter writes the event log and remembered requests.
type EventWriter interface {
	// Append adds an event to the log, which shows it when Update returns. Only events that are read have a Seq. The log is
	// complete up to its newest event: none with a lower Seq appears later.
	Append(e *Event) error

	// PutRequest remembers the request. One of the same principal and id is an error.
	PutRequest(r *Request) error
}

// SessionReader reads sessions and registered tools.
type SessionReader interface {
	Session(id string) (*Session, error)

	// SessionByKey returns the open session of the key.
	SessionByKey(toolset Toolset, owner, key string) (*Session, error)

	// Sessions returns the open sessions of the owner, or of all owners when owner is empty; the one used last first.
	Sessions(toolset Toolset, owner string) ([]*Session, error)

	// Tools returns the tools that the owner has registered, in the order in which they were first.
	Tools(owner string) ([]*RegisteredTool, error)
}

// SessionWriter writes sessions and registered tools.
type SessionWriter interface {
	// InsertSession adds a session. SESSION_EXISTS when its owner has an open one of that key.
	InsertSession(s *Session) error

	// UpdateSession writes every field of a session that is there, and sets its Revision.
	UpdateSession(s *Session) error

	// PutTool keeps the tool, in place of one of the same owner, name and agent, whose CreatedAt it keeps. It says
	// whether there was one.
	PutTool(t *RegisteredTool) (replaced bool, err error)

	// DeleteTool removes the tool of the owner, name and agent. One that does not exist is not an error.
	DeleteTool(owner, name, agent string) error
}

// TokenReader reads tokens.
type TokenReader interface {
	Token(name string) (*Token, error)

	// AgentTokens returns the tokens of the agent that are not revoked.
	AgentTokens(agentUID string) ([]*Token, error)

	TokenByHash(hash string) (*Token, error)

	Tokens() ([]*Token, error)
}

// TokenWriter writes tokens.
type TokenWriter interface {
	// InsertToken adds a token. TOKEN_EXISTS when there is one of that name that is not revoked.
	InsertToken(t *Token) error

	// UpdateToken writes every field of a token that is there.
	UpdateToken(t *Token) error
}

// IdentityReader reads which subjects are which principals.
type IdentityReader interface {
	// Identity returns the identity of the source's subject.
	Identity(source, subjectID string) (*Identity, error)

	// IdentityOf returns the identity of the principal.
	IdentityOf(principal string) (*Identity, error)
}

// IdentityWriter writes which subjects are which principals.
type IdentityWriter interface {
	// InsertIdentity adds an identity. One of the same subject or the same principal is an error.
	InsertIdentity(i *Identity) error

	// UpdateGroups writes the Groups of an identity that is there.
	UpdateGroups(i *Identity) error
}
