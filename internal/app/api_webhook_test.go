package app

import (
	"context"
	"net/http"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/webhook"
)

// receivers stands in for the receivers of webhooks. A receiver accepts every request, unless its URL names another answer. The
// embedded Sender checks URLs.
type receivers struct{ *webhook.Sender }

func newReceivers() receivers { return receivers{webhook.New("test", nil)} }

// Send returns the answer that the URL names. It sends nothing.
func (receivers) Send(_ context.Context, p fleet.WebhookRequest) fleet.WebhookResponse {
	switch {
	case strings.HasSuffix(p.URL, "/busy"):
		return fleet.WebhookResponse{Code: http.StatusServiceUnavailable, Body: "come back later"}
	case strings.HasSuffix(p.URL, "/gone"):
		return fleet.WebhookResponse{Code: http.StatusGone}
	case strings.HasSuffix(p.URL, "/closed"):
		return fleet.WebhookResponse{Error: "connection refused"}
	}
	return fleet.WebhookResponse{Code: http.StatusNoContent}
}
