package rpc

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// TestTopicsAreTypesOfEvents checks that every type of event is a topic of webhooks, except those that a run or a check produces
// while it works, and that the API has the same topics as the core.
func TestTopicsAreTypesOfEvents(t *testing.T) {
	t.Parallel()
	topics := []string{string(fleet.TopicAll), string(fleet.TopicNeedsMe)}
	for _, e := range fleet.WebhookEvents {
		topics = append(topics, string(e))
	}
	for name, n := range fleetv1.Webhook_Topic_value {
		require.True(t, n == 0 || slices.Contains(topics, name), name)
	}
	for _, name := range topics {
		require.Contains(t, fleetv1.Webhook_Topic_value, name)
	}
	silent := append(slices.Clone(fleet.OutputEvents), fleet.EventTaskCheck)
	for name, n := range fleetv1.Event_Type_value {
		require.NotEqual(t, n == 0 || slices.Contains(silent, fleet.EventType(name)), slices.Contains(topics, name), "%s must be either a topic of webhooks or an event that webhooks never send", name)
	}
}
