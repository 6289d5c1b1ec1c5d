package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestTopics checks which events belong to which topics, and that a webhook reads every event that it may send.
func TestTopics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event   fleet.Event
		needsMe bool
	}{
		{fleet.Event{Type: fleet.EventTaskQuestion}, true},
		{fleet.Event{Type: fleet.EventTaskStalled}, true},
		{fleet.Event{Type: fleet.EventTaskEnded, Status: "failed"}, true},
		{fleet.Event{Type: fleet.EventTaskEnded, Status: "completed"}, false},
		{fleet.Event{Type: fleet.EventTaskEnded, Status: "stopped"}, false},
		{fleet.Event{Type: fleet.EventAgentChanged, Status: "failed"}, true},
		{fleet.Event{Type: fleet.EventAgentChanged, Status: "unhealthy"}, true},
		{fleet.Event{Type: fleet.EventAgentChanged, Status: "running"}, false},
		{fleet.Event{Type: fleet.EventWebhookChanged, Status: "disabled"}, true},
		{fleet.Event{Type: fleet.EventWebhookChanged}, false},
		{fleet.Event{Type: fleet.EventTaskCreated}, false},
	} {
		require.Equal(t, c.needsMe, fleet.TopicNeedsMe.Selects(c.event), "%v", c.event)
		require.True(t, fleet.TopicAll.Selects(c.event), "%v", c.event)
		require.True(t, fleet.Topic(c.event.Type).Selects(c.event), "%v", c.event)
		require.False(t, fleet.Topic("task_message").Selects(c.event), "%v", c.event)
		for _, topic := range []fleet.Topic{fleet.TopicNeedsMe, fleet.TopicAll, fleet.Topic(c.event.Type)} {
			w := &fleet.Webhook{Topics: []fleet.Topic{topic}}
			require.True(t, !w.Selects(c.event) || slices.Contains(w.EventTypes(), c.event.Type), "%s %v", topic, c.event)
		}
	}
	for _, eventType := range fleet.OutputEvents {
		require.False(t, fleet.TopicAll.Selects(fleet.Event{Type: eventType}), eventType)
	}
}

// TestWebhookSecrets checks which secrets are valid while a webhook is rotated.
func TestWebhookSecrets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	w := &fleet.Webhook{SecretSalts: []fleet.WebhookSalt{{Value: "one"}}}
	require.Equal(t, []string{"one"}, w.ValidSalts(now))
	w.Rotate("two", now, time.Hour)
	require.Equal(t, []string{"two", "one"}, w.ValidSalts(now))
	require.Equal(t, now.Add(time.Hour), w.OldSecretEnds(now))
	require.Equal(t, []string{"two"}, w.ValidSalts(now.Add(time.Hour)))
	w.Rotate("three", now, time.Hour)
	require.Equal(t, []string{"three", "two"}, w.ValidSalts(now), "at most two are valid")
	w.Rotate("four", now, 0)
	require.Equal(t, []string{"four"}, w.ValidSalts(now))
	require.Zero(t, w.OldSecretEnds(now))
}
