package service

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"fleet/internal/fleet"
)

// ListDeliveriesRequest selects deliveries of a webhook.
type ListDeliveriesRequest struct {
	Webhook string
	Status  fleet.DeliveryStatus // empty: all
	Since   time.Time            // only those that were created then or later; zero: all
	fleet.PageRequest
}

// defaultDeliveries is how many deliveries ListDeliveries returns by default.
const defaultDeliveries = 50

// ListDeliveries returns a page of the webhook's deliveries, the newest first, and the cursor of the next page; "" on the last page.
func (s *Service) ListDeliveries(ctx context.Context, r ListDeliveriesRequest) (out []*fleet.Delivery, next string, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, "", err
	}
	offset, count, err := r.Window(defaultDeliveries)
	if err != nil {
		return nil, "", err
	}
	w, err := s.webhooks().find(ctx, p, r.Webhook)
	if err != nil {
		return nil, "", err
	}
	out, err = view(ctx, s.store, func(tx fleet.ReadTx) ([]*fleet.Delivery, error) {
		return tx.Deliveries(fleet.DeliveryFilter{WebhookUID: w.UID, Status: r.Status, Since: r.Since, Offset: offset, Limit: count + 1})
	})
	if len(out) > count {
		return out[:count], strconv.Itoa(offset + count), err
	}
	return out, "", err
}

// RedeliverRequest selects deliveries that are sent again, with the same ids.
type RedeliverRequest struct {
	Webhook string
	ID      string    // id of one delivery, whatever its status is
	Since   time.Time // without ID: those that were created then or later and have not been delivered
}

// maxRedelivered is the maximum number of deliveries that a call of Redeliver sends again.
const maxRedelivered = 1000

// Redeliver sends deliveries again and returns their number. more means that some are left for another call. Redeliver does
// not wait for the attempts.
func (s *Service) Redeliver(ctx context.Context, r RedeliverRequest) (n int, more bool, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return 0, false, err
	}
	if (r.ID == "") == r.Since.IsZero() {
		return 0, false, fleet.InvalidField("delivery_id", "give either delivery_id, for one delivery, or since, for those that were not delivered")
	}
	found, err := s.webhooks().find(ctx, p, r.Webhook)
	if err != nil {
		return 0, false, err
	}
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		w, err := s.enabledWebhook(tx, p, found.Key(), r.Webhook)
		if err != nil {
			return err
		}
		now := s.now()
		var all []*fleet.Delivery
		if all, more, err = s.selectDeliveries(tx, w, r, now); err != nil {
			return err
		}
		for _, d := range all {
			d.Requeue(now) // all at one time, so that they are sent in the order of their events
			if err := tx.Update(d); err != nil {
				return err
			}
		}
		if n = len(all); n == 0 {
			return nil
		}
		return tx.Append(s.webhooks().newEvent(w, "sends deliveries again, as "+p.Name+" requested"))
	})
	return n, more, err
}

// selectDeliveries returns the webhook's deliveries that the request selects, at most maxRedelivered. It leaves out those that an earlier
// call has requeued and that have not been tried since. more means that the request selects others too.
func (s *Service) selectDeliveries(tx fleet.ReadTx, w *fleet.Webhook, r RedeliverRequest, now time.Time) (all []*fleet.Delivery, more bool, err error) {
	if r.ID != "" {
		d, err := fleet.First(tx.Deliveries(fleet.DeliveryFilter{ID: r.ID}))
		if err == nil && (d == nil || d.WebhookUID != w.UID) {
			err = fleet.Errorf(fleet.ReasonDeliveryNotFound, "the webhook %q has no delivery %q", w.Name, fleet.Shorten(r.ID, 80)).With("delivery_id", fleet.Shorten(r.ID, 80)).Next("{list_deliveries} lists them")
		}
		return []*fleet.Delivery{d}, false, err
	}
	for _, status := range []fleet.DeliveryStatus{fleet.DeliveryFailed, fleet.DeliveryWaiting} {
		f := fleet.DeliveryFilter{WebhookUID: w.UID, Status: status, Since: r.Since, Limit: maxRedelivered + 1}
		if status == fleet.DeliveryWaiting {
			f.Undue = now
		}
		found, err := tx.Deliveries(f)
		if err != nil {
			return nil, false, err
		}
		all = append(all, found...)
	}
	if len(all) > maxRedelivered {
		return all[:maxRedelivered], true, nil
	}
	return all, false, nil
}

// enabledWebhook returns the webhook with the key. name is the reference that the caller gave, for the error. The error is
// WEBHOOK_DISABLED if the webhook is disabled.
func (s *Service) enabledWebhook(tx fleet.ReadTx, p fleet.Principal, key, name string) (*fleet.Webhook, error) {
	w, err := s.webhooks().read(tx, key)
	switch {
	case err != nil:
		return nil, err
	case w == nil || !w.VisibleTo(p):
		return nil, s.webhooks().errNotFound(name)
	case w.DisabledReason != "":
		return nil, fleet.Errorf(fleet.ReasonWebhookDisabled, "the webhook %q is disabled: %s", w.Name, w.DisabledReason).With("webhook", w.Name).Next("{update_webhook} enables it")
	}
	return w, nil
}

// testWait is how long TestWebhook waits for the attempt.
const testWait = 25 * time.Second

// TestWebhook sends a test to the webhook and returns the delivery after the first attempt. If the attempt does not end within
// testWait, TestWebhook returns the delivery without an attempt.
func (s *Service) TestWebhook(ctx context.Context, name string) (*fleet.Delivery, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.webhooks().find(ctx, p, name)
	if err != nil {
		return nil, err
	}
	now := s.now()
	d := &fleet.Delivery{ID: "msg_" + s.NewID(), WebhookUID: found.UID, Type: fleet.DeliveryTest, Status: fleet.DeliveryWaiting, NextAt: now, CreatedAt: now}
	if d.Body, err = json.Marshal(webhookBody{Type: d.Type, Timestamp: now, Data: webhookData{Webhook: found.Name, Owner: found.Owner}}); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		w, err := s.enabledWebhook(tx, p, found.Key(), name)
		if err != nil {
			return err
		}
		if err := tx.Insert(d); err != nil {
			return err
		}
		return tx.Append(s.webhooks().newEvent(w, "sends a test, as "+p.Name+" requested"))
	})
	if err != nil {
		return nil, err
	}
	err = s.await(ctx, testWait, func() (bool, error) {
		err := s.store.View(ctx, func(tx fleet.ReadTx) error {
			current, err := fleet.First(tx.Deliveries(fleet.DeliveryFilter{ID: d.ID}))
			if current != nil {
				d = current
			}
			return err
		})
		return len(d.Attempts) > 0, err
	})
	return d, err
}

// webhookBody is what a webhook sends, as the Standard Webhooks specification recommends. It is thin: it has no prompts, no
// output, no questions and no errors. The receiver reads these with its own credentials, as far as it may see them.
type webhookBody struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      webhookData `json:"data"`
}

// webhookData is documented in docs/use/webhooks.md.
type webhookData struct {
	Webhook   string        `json:"webhook"`
	Cursor    string        `json:"cursor,omitempty"` // of the event, as in watch_fleet
	AgentName string        `json:"agent_name,omitempty"`
	AgentID   string        `json:"agent_id,omitempty"`
	TaskID    string        `json:"task_id,omitempty"`
	Owner     string        `json:"owner,omitempty"`
	Status    string        `json:"status,omitempty"`
	NeedsMe   bool          `json:"needs_me"`
	Links     *webhookLinks `json:"links,omitempty"`
}

// webhookLinks are the addresses of the task, or else of the agent.
type webhookLinks struct {
	API  string `json:"api"`
	Page string `json:"page"`
}

// newDelivery returns the delivery of the event to the webhook.
func (s *Service) newDelivery(w *fleet.Webhook, e fleet.Event, now time.Time) (*fleet.Delivery, error) {
	d := &fleet.Delivery{
		ID: fleet.DeliveryID(w.UID, e.Seq), WebhookUID: w.UID, Seq: e.Seq, Type: string(e.Type), AgentName: e.AgentName, TaskID: e.TaskID, Status: fleet.DeliveryWaiting, NextAt: now, CreatedAt: now,
	}
	body, err := json.Marshal(webhookBody{Type: d.Type, Timestamp: e.Time, Data: webhookData{
		Webhook: w.Name, Cursor: strconv.FormatInt(e.Seq, 10), AgentName: e.AgentName, AgentID: e.AgentUID, TaskID: e.TaskID, Owner: e.Owner, Status: e.Status,
		NeedsMe: e.NeedsMe(), Links: webhookLinksOf(s.cfg.BaseURL(), e),
	}})
	d.Body = body
	return d, err
}

func webhookLinksOf(base string, e fleet.Event) *webhookLinks {
	switch {
	case base == "":
		return nil
	case e.TaskID != "":
		return &webhookLinks{base + "/v1/tasks/" + url.PathEscape(e.TaskID), base + "/tasks/" + url.PathEscape(e.TaskID)}
	case e.AgentName != "":
		ref := url.PathEscape(e.AgentName + "@" + e.Owner)
		return &webhookLinks{base + "/v1/agents/" + ref, base + "/agents/" + ref}
	}
	return nil
}
