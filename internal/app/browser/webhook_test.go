package browser

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
)

// TestWebhooks shows a webhook in the room Admin, tests it, disables it, and enables it. While a webhook is disabled, the room Attention
// shows it.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(receiver.Close)
	s := serve(t, func(c *app.Config) { c.Webhooks.Allow = []string{"127.0.0.1"} })
	b := openAt(t, s.home, "/admin")
	b.waitForText("No webhooks")
	_, err := s.api.CreateWebhook(t.Context(), &fleetv1.CreateWebhookRequest{Name: "ops", Url: receiver.URL, Topics: []fleetv1.Webhook_Topic{fleetv1.Webhook_needs_me, fleetv1.Webhook_task_ended}})
	require.NoError(t, err)
	b.waitForRows("Webhooks", "ops "+receiver.URL+" needs_me, task_ended 0 0 active Test Disable")
	b.press("Test ops")
	b.waitForText("ops: the test is delivered, answer 204")
	b.press("Disable ops")
	b.press("Yes")
	b.waitForRows("Webhooks", "ops "+receiver.URL+" needs_me, task_ended 0 0 disabled by local Enable")
	b.press("Enable ops")
	b.waitForRows("Webhooks", "ops "+receiver.URL+" needs_me, task_ended 0 0 active Test Disable")

	_, err = s.api.UpdateWebhook(t.Context(), &fleetv1.UpdateWebhookRequest{Name: "ops", Disabled: new(true)})
	require.NoError(t, err)
	b.goTo("/attention")
	b.waitForText("ops sends nothing any more")
	b.waitForText("disabled by local")
	b.press("Enable ops")
	require.NoError(t, b.waitUntil(`() => !document.body.textContent.includes('sends nothing any more')`))
}
