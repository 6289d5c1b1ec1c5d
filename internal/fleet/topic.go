package fleet

import "slices"

// Topic selects events for a webhook: either all events of one type, which has the same name, or a class of events.
type Topic string

// The classes of events.
const (
	TopicAll     Topic = "all"      // every event that webhooks can send
	TopicNeedsMe Topic = "needs_me" // events that a person should look at, see NeedsMe
)

// needsMeEvents are the types of events that can belong to the class TopicNeedsMe.
var needsMeEvents = []EventType{EventTaskQuestion, EventTaskEnded, EventTaskStalled, EventAgentChanged, EventWebhookChanged}

// WebhookEvents are the types of events that webhooks send. A run produces events of the other types while it works; they are
// too many to send.
var WebhookEvents = []EventType{
	EventAgentCreated, EventAgentChanged, EventAgentDeleted, EventAgentShared, EventAgentUnshared,
	EventTaskCreated, EventTaskQueued, EventTaskAssigned, EventTaskStarted, EventTaskQuestion, EventTaskAnswer, EventTaskStalled,
	EventTaskRecovered, EventTaskStopping, EventTaskEnded, EventTaskLanding, EventTaskDelegated, EventTaskLabelled, EventTaskDeleted,
	EventPoolChanged, EventScheduleChanged, EventFleetChanged, EventWebhookChanged,
}

// NeedsMe reports whether a person should look at the event: an agent asks a question or is stuck, a task or an agent has
// failed, or a webhook was disabled. A used-up budget has no case of its own: it ends the task, or makes it ask whether to
// continue.
func (e Event) NeedsMe() bool {
	switch e.Type { //nolint:exhaustive // the others are news
	case EventTaskQuestion, EventTaskStalled:
		return true
	case EventTaskEnded:
		return e.Status == string(TaskFailed)
	case EventAgentChanged:
		return e.Status == string(StateFailed) || e.Status == string(StateUnhealthy)
	case EventWebhookChanged:
		return e.Status == WebhookDisabled
	}
	return false
}

// Selects reports whether the event belongs to the topic.
func (t Topic) Selects(e Event) bool {
	switch t {
	case TopicAll:
		return slices.Contains(WebhookEvents, e.Type)
	case TopicNeedsMe:
		return e.NeedsMe()
	}
	return EventType(t) == e.Type
}

// eventTypes returns the types of the events that the topic can select.
func (t Topic) eventTypes() []EventType {
	switch t {
	case TopicAll:
		return WebhookEvents
	case TopicNeedsMe:
		return needsMeEvents
	}
	return []EventType{EventType(t)}
}
