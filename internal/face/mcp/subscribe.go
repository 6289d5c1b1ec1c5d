package mcp

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	fleetv1 "fleet/gen/fleet/v1"
)

// maxSubscriptions is how many resources one request may subscribe to.
const maxSubscriptions = 100

// subscribes reports whether the message subscribes to resources. This package answers such messages itself, because mcp-go has subscriptions only for
// servers that keep sessions.
func (e envelope) subscribes() bool {
	return e.Method == string(mcp.MethodSubscriptionsListen) && len(e.ID) > 0 && e.isModern() && len(e.Params.Notifications.ResourceSubscriptions) > 0
}

// subscription is a resource whose changes a client wants to know about. Either agent or task is set.
type subscription struct {
	uri         string
	agent, task string // as the client has written them
	transcript  bool   // the resource is the transcript of the task
}

// readSubscription parses the URI. ok is false if it is not the URI of an agent, of a task, or of a task's payload or transcript.
func readSubscription(uri string) (s subscription, ok bool) {
	rest, ok := strings.CutPrefix(uri, "fleet://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 2 || parts[1] == "" {
		return s, false
	}
	s = subscription{uri: uri}
	value, err := url.PathUnescape(parts[1])
	switch {
	case err != nil:
		return s, false
	case parts[0] == "agent" && len(parts) == 2:
		s.agent = value
		return s, true
	case parts[0] == "task" && (len(parts) == 2 || len(parts) == 3 && (parts[2] == "payload" || parts[2] == "transcript")):
		s.task, s.transcript = value, len(parts) == 3 && parts[2] == "transcript"
		return s, true
	}
	return s, false
}

// minTaskPrefix is the length of the shortest beginning of a task's id that the API accepts.
const minTaskPrefix = 6

// isChangedBy reports whether the resource may be different after the event.
func (s subscription) isChangedBy(e *fleetv1.Event) bool {
	if s.task != "" {
		return len(s.task) >= minTaskPrefix && strings.HasPrefix(e.GetTaskId(), s.task)
	}
	name, owner, _ := strings.Cut(s.agent, "@")
	return strings.EqualFold(name, e.GetAgentName()) && (owner == "" || owner == e.GetOwner())
}

// listen answers a message that subscribes to resources. It notifies the client of changes until ctx ends or the server stops, and then
// returns the response. The response is nil if a notification cannot be sent. URIs that are not valid are ignored; without a valid one,
// listen returns after it has acknowledged the message.
//
// The client is notified only of events that it may see, so it cannot distinguish resources of others from resources that do not
// exist.
func (t tasks) listen(ctx context.Context, m envelope, notify func(mcp.JSONRPCNotification) error) (response []byte) {
	all := []subscription{}
	uris := []string{}
	q := &fleetv1.WatchFleetRequest{Cursor: "now", Quiet: true, OutputWithoutText: true}
	for _, uri := range m.Params.Notifications.ResourceSubscriptions {
		s, ok := readSubscription(uri)
		if !ok || slices.Contains(uris, uri) {
			continue
		}
		all, uris = append(all, s), append(uris, uri)
		if s.transcript {
			q.OutputOf = append(q.OutputOf, s.task)
		}
	}
	if len(uris) > maxSubscriptions {
		return (&rpcError{Code: mcp.INVALID_PARAMS, Message: fmt.Sprintf("subscribe to at most %d resources at a time", maxSubscriptions)}).response(m.ID)
	}
	meta := map[string]any{mcp.MetaKeySubscriptionID: m.ID}
	send := func(method string, fields map[string]any) error {
		return notify(mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
			Method: method, Params: mcp.NotificationParams{Meta: meta, AdditionalFields: fields},
		}})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The client may read the resources as soon as it knows that it has subscribed. So the cursor is taken before that, and later events are
	// sent even if the stream begins late.
	events, err := t.api.WatchFleet(ctx, q)
	if err == nil {
		var now *fleetv1.WatchFleetResponse
		if now, err = events.Recv(); err == nil {
			q.Cursor, q.Follow = now.GetCursor(), true
			events, err = t.api.WatchFleet(ctx, q)
		}
	}
	if err != nil {
		return callError(err).response(m.ID)
	}
	if err := send(mcp.MethodNotificationSubscriptionsAcknowledged, map[string]any{"notifications": mcp.SubscriptionFilter{ResourceSubscriptions: uris}}); err != nil {
		return nil
	}
	for len(all) > 0 {
		batch, err := events.Recv()
		if err != nil {
			break // the client has disconnected, or the server stops; the client can subscribe again
		}
		for _, s := range all {
			if slices.ContainsFunc(batch.GetEvents(), s.isChangedBy) {
				if err := send(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": s.uri}); err != nil {
					return nil
				}
			}
		}
	}
	response, _ = resultResponse(m.ID, map[string]any{"resultType": mcp.ResultTypeComplete, "_meta": meta})
	return response
}
