package app

import (
	"context"
	"net/http"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/webhook"
)

// receivers stands in for the receivers of webhooks. They accept everything, except those whose URL names another status.
type receivers struct{ *webhook.Sender }

func newReceivers() receivers { return receivers{webhook.New("test", nil)} }

// Post answers as the URL says.
func (receivers) Post(_ context.Context, p fleet.Post) fleet.PostResult {
	switch {
	case strings.HasSuffix(p.URL, "/busy"):
		return fleet.PostResult{Code: http.StatusServiceUnavailable, Response: "come back later"}
	case strings.HasSuffix(p.URL, "/gone"):
		return fleet.PostResult{Code: http.StatusGone}
	case strings.HasSuffix(p.URL, "/closed"):
		return fleet.PostResult{Error: "connection refused"}
	}
	return fleet.PostResult{Code: http.StatusNoContent}
}
