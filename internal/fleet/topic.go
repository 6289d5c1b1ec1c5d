package fleet

import "slices"

// Topic selects events for a webhook: those of the type with the same name, or those of a class.
type Topic string

// The classes of events.
const (
	TopicAll     Topic = "all"      // every event that webhooks can send
	TopicNeedsMe Topic = "needs_me" // what a person has to look at, see NeedsMe
)

// needsMeEvents are the types of events of which some are in the class TopicNeedsMe.
var needsMeEvents = []EventType{EventTaskQuestion, EventTaskEnded, EventTaskStalled, EventAgentChanged, EventWebhook}

// WebhookEvents are the types of events that webhooks send. The others come from a run while it works, and are many.
var WebhookEvents = []EventType{
	EventAgentCreated, EventAgentChanged, EventAgentDeleted, EventAgentShared, EventAgentUnshared,
	EventTaskCreated, EventTaskQueued, EventTaskAssigned, EventTaskStarted, EventTaskQuestion, EventTaskAnswer, EventTaskStalled,
	EventTaskRecovered, EventTaskStopping, EventTaskEnded, EventTaskLanding, EventTaskDelegated, EventTaskLabelled, EventTaskDeleted,
	EventPoolChanged, EventSchedule, EventFleetChanged, EventWebhook,
}

// NeedsMe reports whether a person should look at what the event says: an agent asks or is stuck, a task or an agent has failed, or a
// webhook was disabled. A budget that is used up ends a task, or asks whether it goes on.
func (e Event) NeedsMe() bool {
	switch e.Type { //nolint:exhaustive // the others are news
	case EventTaskQuestion, EventTaskStalled:
		return true
	case EventTaskEnded:
		return e.Status == string(TaskFailed)
	case EventAgentChanged:
		return e.Status == string(StateFailed) || e.Status == string(StateUnhealthy)
	case EventWebhook:
		return e.Status == WebhookDisabled
	}
	return false
}

// WebhookDisabled is the status of the event that says that a webhook was disabled because its receiver fails.
const WebhookDisabled = "disabled"

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

func (t Topic) types() []EventType {
	switch t {
	case TopicAll:
		return WebhookEvents
	case TopicNeedsMe:
		return needsMeEvents
	}
	return []EventType{EventType(t)}
}
