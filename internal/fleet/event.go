package fleet

import "time"

// EventType says what happened.
type EventType string

// The types of events. The proto enum Event.Type describes each of them.
const (
	EventAgentCreated    EventType = "agent_created"
	EventAgentChanged    EventType = "agent_changed"
	EventAgentDeleted    EventType = "agent_deleted"
	EventAgentShared     EventType = "agent_shared"
	EventAgentUnshared   EventType = "agent_unshared"
	EventTaskCreated     EventType = "task_created"
	EventTaskStarted     EventType = "task_started"
	EventTaskOutput      EventType = "task_output"
	EventTaskMoreOutput  EventType = "task_more_output"
	EventTaskStep        EventType = "task_step"
	EventTaskDetail      EventType = "task_detail"
	EventTaskMessage     EventType = "task_message"
	EventTaskQuestion    EventType = "task_question"
	EventTaskAnswer      EventType = "task_answer"
	EventTaskCheck       EventType = "task_check"
	EventTaskStalled     EventType = "task_stalled"
	EventTaskRecovered   EventType = "task_recovered"
	EventTaskStopping    EventType = "task_stopping"
	EventTaskEnded       EventType = "task_ended"
	EventTaskDeleted     EventType = "task_deleted"
	EventTaskLabelled    EventType = "task_labelled"
	EventTaskQueued      EventType = "task_queued"
	EventTaskAssigned    EventType = "task_assigned"
	EventTaskLanding     EventType = "task_landing"
	EventTaskDelegated   EventType = "task_delegated"
	EventPoolChanged     EventType = "pool_changed"
	EventFleetChanged    EventType = "fleet_changed"
	EventScheduleChanged EventType = "schedule_changed"
	EventWebhookChanged  EventType = "webhook_changed"
)

// OutputEvents are the types of the events that a task's run produces while it works. EventFilter.WithoutOutput leaves them out.
var OutputEvents = []EventType{EventTaskOutput, EventTaskMoreOutput, EventTaskStep, EventTaskDetail, EventTaskMessage}

// ChangesVisibility reports whether an event of the type may change who sees the agent.
func (t EventType) ChangesVisibility() bool { return t == EventAgentShared || t == EventAgentUnshared }

// Event is one row of the append-only log.
type Event struct {
	Seq       int64 // position in the log; 0 in events that were not read from it
	Time      time.Time
	Type      EventType
	AgentUID  string
	AgentName string
	Owner     string
	TaskID    string // empty if the event is about the agent alone
	Text      string // a description, or the output itself
	Status    string // after the event: the state of the agent, of the landing or of the webhook, or the status of the task if it changed
	Data      []byte // the JSON form of a Step; nil if there is nothing to add to the text
}
