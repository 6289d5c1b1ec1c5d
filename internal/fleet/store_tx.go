package fleet

// AgentReader reads agents.
type AgentReader interface {
	// Agent returns the agent, even if it is deleted.
	Agent(uid string) (*Agent, error)

	// AgentsByName returns the agents with the name that are not deleted, sorted by owner. It ignores the name's case. An
	// empty owner means all owners.
	AgentsByName(name, owner string) ([]*Agent, error)

	// NewestAgent returns the newest agent with the name, even if it is deleted. It ignores the name's case, and agents of
	// toolsets other than ToolsetFleet. An empty owner means all owners.
	NewestAgent(name, owner string) (*Agent, error)

	// AgentByWorkspace returns the newest agent that has or had the workspace of the place, even if it is deleted.
	AgentByWorkspace(place, workspaceID string) (*Agent, error)

	// Agents returns the agents that are not deleted, sorted by name and owner.
	Agents() ([]*Agent, error)

	// AgentViews returns the agents with these uids and their active tasks. It includes deleted agents and leaves out uids
	// that no agent ever had.
	AgentViews(uids []string) ([]*AgentView, error)

	// SharedAgents returns the agents that are shared, including deleted ones, sorted by uid.
	SharedAgents() ([]*Agent, error)

	// LiveAgentViews returns all agents that are not deleted, with their active tasks.
	LiveAgentViews() ([]*AgentView, error)

	// Holdings returns how much the owner has. The limits hold even if several transactions add something at the same time,
	// provided that each of them calls Holdings and adds only as much as the limits allow. If all limits are 0, concurrent
	// transactions may change the result.
	Holdings(owner string, l Limits) (Holdings, error)

	// TaskHoldings is like Holdings without agents, because counting thousands of agents takes long. bytes is how many stored
	// bytes the transaction is about to add, besides a new task.
	TaskHoldings(owner string, l Limits, bytes int) (Holdings, error)

	// OwnAgents returns how many agents of the toolset the owner has. As with Holdings, the limit most holds even if several
	// transactions add agents at the same time.
	OwnAgents(owner string, toolset Toolset, most int) (int, error)

	// InProject returns how much the project has, whoever owns it.
	InProject(project string) (ProjectHoldings, error)

	// Remains returns what the store keeps of an agent that is deleted or is being deleted.
	Remains(uid string) (*Remains, error)

	// Bundle returns the bundle of the agent's remains; nil if there is no bundle.
	Bundle(uid string) ([]byte, error)

	// ChangedAgents returns the agents that have events after seq, and those with the other uids, each once. It also returns
	// the Seq of the newest event. It ignores output events. An agent is Foreign while an owner other than worker has its
	// lease.
	ChangedAgents(after int64, others []string, worker string) (changed []ChangedAgent, last int64, err error)
}

// AgentWriter writes agents.
type AgentWriter interface {
	// InsertAgent adds an agent. It returns AGENT_EXISTS if the owner has an agent with that name.
	InsertAgent(a *Agent) error

	// UpdateAgent writes all fields of an existing agent except its AgentConfig, and sets its Revision.
	UpdateAgent(a *Agent) error

	// PutRemains stores the remains of an agent and their bundle, and replaces earlier ones. It derives Size from the bundle.
	PutRemains(uid string, r *Remains, bundle []byte) error
}

// TaskReader reads tasks.
type TaskReader interface {
	Task(id string) (*Task, error)

	// ActiveTask returns the pending or running task of the agent.
	ActiveTask(agentUID string) (*Task, error)

	// Tasks returns a page of the agent's tasks, newest first, and the number of all its tasks. The descriptions contain only
	// the first 4 KiB.
	Tasks(agentUID string, limit, offset int) (tasks []*Task, total int, err error)

	// FindTasks returns the page of matching tasks that the window selects, newest first, and counts the matching tasks. The
	// descriptions contain only the first 4 KiB.
	FindTasks(f TaskFilter, w TaskWindow) (FoundTasks, error)

	// Usage sums up the usage of the matching tasks by the key. It returns at most limit rows, sorted by cost and then by
	// number of tasks, highest first, and the sum of all tasks.
	Usage(f TaskFilter, by UsageKey, limit int) (rows []UsageRow, total UsageRow, err error)

	// TaskIDs returns the task ids that begin with the prefix, sorted, at most limit. It uses only Owner, Shared and Projects
	// of the filter. An empty prefix matches nothing.
	TaskIDs(prefix string, f TaskFilter, limit int) ([]string, error)

	// LastTasks returns the newest task of each of these agents, in any order. It leaves out agents without tasks.
	LastTasks(agentUIDs []string) ([]*Task, error)

	// SessionTasks returns the newest tasks of the session, at most limit, oldest first.
	SessionTasks(sessionID string, limit int) ([]*Task, error)

	// Payload returns the task's payload.
	Payload(taskID string) ([]byte, error)

	// PackedPayload returns the task's payload as stored: compressed by gzip. It is one gzip member if the payload was stored
	// by one PutPayload, and several if pieces were appended.
	PackedPayload(taskID string) ([]byte, error)

	// Changes returns the recorded changes of the task.
	Changes(taskID string) (*Changes, error)

	// Checks returns the recorded state of the task's checks.
	Checks(taskID string) (*TaskChecks, error)

	// Attachments returns the attachments of the task in their order, with their contents if content is set.
	Attachments(taskID string, content bool) ([]Attachment, error)
}

// TaskWriter writes tasks.
type TaskWriter interface {
	// InsertTask adds a task. It returns AGENT_BUSY if the task is active and its agent already has an active task.
	InsertTask(t *Task) error

	// UpdateTask writes all fields of an existing task and sets its Revision. It never changes a task that has ended.
	UpdateTask(t *Task) error

	// AddAttachments adds attachments to a task that has none.
	AddAttachments(taskID string, all []Attachment) error

	// DeleteTask removes a task that has ended, with its payload, changes, checks, attachments, messages, questions and events. It returns
	// an error if the task has not ended or does not exist. The caller appends an event in the same transaction.
	DeleteTask(id string) error

	// PutPayload compresses and stores the task's payload.
	PutPayload(taskID string, payload []byte) error

	// AppendPayload adds a piece to the end of the task's payload.
	AppendPayload(taskID string, piece []byte) error

	// PutChanges stores the changes of the task and replaces earlier ones; nil removes them. The task may have ended.
	PutChanges(taskID string, c *Changes) error

	// PutChecks stores the state of the task's checks and replaces an earlier one. The task may have ended.
	PutChecks(taskID string, c *TaskChecks) error
}

// MessageReader reads messages to tasks, and questions of tasks.
type MessageReader interface {
	// Message returns the message with the id.
	Message(id string) (*Message, error)

	// Messages returns the messages to the task, oldest first.
	Messages(taskID string) ([]*Message, error)

	// Question returns the question with the id.
	Question(id string) (*Question, error)

	// Questions returns a page of the matching questions, newest first, and the number of all matching questions.
	Questions(f QuestionFilter, limit, offset int) (questions []*Question, total int, err error)
}

// MessageWriter writes messages to tasks, and questions of tasks.
type MessageWriter interface {
	// InsertMessage adds a message to a task. It returns an error if the id exists.
	InsertMessage(m *Message) error

	// UpdateMessage writes GivenAt, Refused and RefusedText of an existing message. It never changes a message that was
	// delivered or refused.
	UpdateMessage(m *Message) error

	// InsertQuestion adds a question to a task. It returns an error if the id exists.
	InsertQuestion(q *Question) error

	// UpdateQuestion writes the status and the answer of an existing question. It never changes a question that is not open.
	UpdateQuestion(q *Question) error
}

// EventReader reads the event log and remembered requests.
type EventReader interface {
	// Events returns the matching events after seq, oldest first, at most limit. If the filter has an agent's uid or a task,
	// the events are complete. Otherwise a transaction may see a change shortly before its event appears in the log.
	Events(f EventFilter, after int64, limit int) ([]Event, error)

	// LastEvents returns the newest matching events, at most limit, oldest first.
	LastEvents(f EventFilter, limit int) ([]Event, error)

	// LastSeq returns the Seq of the newest event; 0 if the log is empty.
	LastSeq() (int64, error)

	// Request returns the principal's remembered request with the id.
	Request(principal, id string) (*Request, error)
}

// EventWriter writes the event log and remembered requests.
type EventWriter interface {
	// Append adds an event to the log. The log shows it when Update returns. Append does not set Seq; only events that were
	// read have one. The log is complete up to its newest event: an event with a lower Seq never appears later.
	Append(e *Event) error

	// PutRequest remembers the request. It returns an error if a request of the same principal with the same id exists.
	PutRequest(r *Request) error
}

// SessionReader reads sessions and registered tools.
type SessionReader interface {
	// Session returns the session, open or closed.
	Session(id string) (*Session, error)

	// SessionByKey returns the owner's open session with the key.
	SessionByKey(toolset Toolset, owner, key string) (*Session, error)

	// Sessions returns the open sessions of the owner, the last used first. An empty owner means all owners.
	Sessions(toolset Toolset, owner string) ([]*Session, error)

	// Tools returns the tools that the owner has registered, sorted by their first registration.
	Tools(owner string) ([]*RegisteredTool, error)
}

// SessionWriter writes sessions and registered tools.
type SessionWriter interface {
	// InsertSession adds a session. It returns SESSION_EXISTS if the owner has an open session with that key.
	InsertSession(s *Session) error

	// UpdateSession writes all fields of an existing session and sets its Revision.
	UpdateSession(s *Session) error

	// PutTool stores the tool. It replaces a tool with the same owner, name and agent, keeps that tool's CreatedAt, and
	// reports whether there was one.
	PutTool(t *RegisteredTool) (replaced bool, err error)

	// DeleteTool removes the tool with the owner, name and agent. It is not an error if the tool does not exist.
	DeleteTool(owner, name, agent string) error
}

// TokenReader reads tokens.
type TokenReader interface {
	// Token returns the token with the name that is not revoked; if there is none, the newest revoked one. It does not return
	// tokens of agents.
	Token(name string) (*Token, error)

	// AgentTokens returns the tokens of the agent that are not revoked.
	AgentTokens(agentUID string) ([]*Token, error)

	// TokensNamed returns the tokens with the name, including revoked ones, from the oldest to the newest. It does not return
	// tokens of agents.
	TokensNamed(name string) ([]*Token, error)

	// Tokens returns all tokens except those of agents, including revoked ones, sorted by name and then from the oldest to the
	// newest.
	Tokens() ([]*Token, error)
}

// TokenWriter writes tokens.
type TokenWriter interface {
	// InsertToken adds a token. It returns TOKEN_EXISTS if a token with that name exists and is not revoked.
	InsertToken(t *Token) error

	// UpdateToken writes all fields of an existing token.
	UpdateToken(t *Token) error
}

// IdentityReader reads identities.
type IdentityReader interface {
	// Identity returns the identity of the subject of the source.
	Identity(source, subjectID string) (*Identity, error)

	// IdentityOf returns the identity of the principal.
	IdentityOf(principal string) (*Identity, error)
}

// IdentityWriter writes identities.
type IdentityWriter interface {
	// InsertIdentity adds an identity. It returns an error if the subject or the principal already has one.
	InsertIdentity(i *Identity) error

	// UpdateGroups writes the Groups of an existing identity.
	UpdateGroups(i *Identity) error
}
