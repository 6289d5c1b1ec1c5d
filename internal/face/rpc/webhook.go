package rpc

import (
	"context"
	"fmt"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// CreateWebhook adds a webhook.
func (f *Fleet) CreateWebhook(ctx context.Context, r *fleetv1.CreateWebhookRequest) (*fleetv1.CreateWebhookResponse, error) {
	w, secret, err := f.svc.CreateWebhook(ctx, service.CreateWebhookRequest{
		Name: r.GetName(), URL: r.GetUrl(), Topics: topicsIn(r.GetTopics()), Selector: r.GetSelector(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateWebhookResponse{Webhook: webhookOf(w), Secret: optional(secret), Message: "Webhook created successfully"}, nil
}

// UpdateWebhook changes a webhook.
func (f *Fleet) UpdateWebhook(ctx context.Context, r *fleetv1.UpdateWebhookRequest) (*fleetv1.UpdateWebhookResponse, error) {
	w, err := f.svc.UpdateWebhook(ctx, service.UpdateWebhookRequest{
		Name: r.GetName(), URL: r.Url, Topics: topicsIn(r.GetTopics()), Selector: r.Selector, Disabled: r.Disabled, RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.UpdateWebhookResponse{Webhook: webhookOf(w), Message: "Webhook changed successfully"}, nil
}

// ListWebhooks lists webhooks.
func (f *Fleet) ListWebhooks(ctx context.Context, r *fleetv1.ListWebhooksRequest) (*fleetv1.ListWebhooksResponse, error) {
	all, total, next, err := f.svc.ListWebhooks(ctx, cursorPageIn(r.GetCursor(), r.Limit))
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListWebhooksResponse{Webhooks: listOf(all, webhookOf), TotalCount: int32Of(total), NextCursor: optional(next)}, nil
}

// DeleteWebhook deletes a webhook.
func (f *Fleet) DeleteWebhook(ctx context.Context, r *fleetv1.DeleteWebhookRequest) (*fleetv1.DeleteWebhookResponse, error) {
	if err := f.svc.DeleteWebhook(ctx, r.GetName(), r.GetRequestId()); err != nil {
		return nil, err
	}
	return &fleetv1.DeleteWebhookResponse{Message: "Webhook deleted successfully"}, nil
}

// RotateWebhook gives a webhook a new secret.
func (f *Fleet) RotateWebhook(ctx context.Context, r *fleetv1.RotateWebhookRequest) (*fleetv1.RotateWebhookResponse, error) {
	overlap := fleet.DefaultWebhookOverlap
	if r.OverlapSeconds != nil {
		overlap = time.Duration(r.GetOverlapSeconds()) * time.Second
	}
	w, secret, err := f.svc.RotateWebhook(ctx, r.GetName(), overlap, r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.RotateWebhookResponse{Webhook: webhookOf(w), Secret: secret, Message: "Secret rotated successfully"}, nil
}

// TestWebhook sends a test delivery to a webhook, and waits a few seconds for its first attempt.
func (f *Fleet) TestWebhook(ctx context.Context, r *fleetv1.TestWebhookRequest) (*fleetv1.TestWebhookResponse, error) {
	d, err := f.svc.TestWebhook(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.TestWebhookResponse{Delivery: deliveryOf(d)}, nil
}

// ListDeliveries lists deliveries of a webhook.
func (f *Fleet) ListDeliveries(ctx context.Context, r *fleetv1.ListDeliveriesRequest) (*fleetv1.ListDeliveriesResponse, error) {
	since, err := timeIn("since", r.GetSince())
	if err != nil {
		return nil, err
	}
	all, next, err := f.svc.ListDeliveries(ctx, service.ListDeliveriesRequest{
		Webhook: r.GetName(), Status: fleet.DeliveryStatus(nameIn(r.GetStatus())), Since: since, PageRequest: cursorPageIn(r.GetCursor(), r.Limit),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListDeliveriesResponse{Deliveries: listOf(all, deliveryOf), NextCursor: optional(next)}, nil
}

// Redeliver makes deliveries due again. It does not wait until they are sent.
func (f *Fleet) Redeliver(ctx context.Context, r *fleetv1.RedeliverRequest) (*fleetv1.RedeliverResponse, error) {
	since, err := timeIn("since", r.GetSince())
	if err != nil {
		return nil, err
	}
	n, more, err := f.svc.Redeliver(ctx, service.RedeliverRequest{Webhook: r.GetName(), ID: r.GetDeliveryId(), Since: since})
	if err != nil {
		return nil, err
	}
	message := fmt.Sprintf("%d deliveries are sent again", n)
	if n == 1 {
		message = "1 delivery is sent again"
	}
	return &fleetv1.RedeliverResponse{Redelivered: int32Of(n), More: more, Message: message}, nil
}

// topicsIn returns the topics by their names. A number without a name becomes a topic that the core refuses.
func topicsIn(topics []fleetv1.Webhook_Topic) (out []fleet.Topic) {
	for _, t := range topics {
		out = append(out, fleet.Topic(t.String()))
	}
	return out
}

func webhookOf(w *service.WebhookView) *fleetv1.Webhook {
	return &fleetv1.Webhook{
		Name: w.Name, Owner: w.Owner, Url: w.URL, Selector: w.Selector, Disabled: w.DisabledReason != "", DisabledReason: optional(w.DisabledReason), FailingSince: timeOf(w.FailingSince),
		Waiting: int32Of(w.Waiting), WaitingSince: timeOf(w.Oldest), Failed: int32Of(w.Failed), OldSecretEndsAt: timeOf(w.OldSecretEnds), CreatedAt: timeOf(w.CreatedAt),
		Topics: listOf(w.Topics, func(t fleet.Topic) fleetv1.Webhook_Topic {
			return fleetv1.Webhook_Topic(fleetv1.Webhook_Topic_value[string(t)])
		}),
	}
}

func deliveryOf(d *fleet.Delivery) *fleetv1.Delivery {
	out := &fleetv1.Delivery{
		DeliveryId: d.ID, Type: d.Type, Status: fleetv1.Delivery_Status(fleetv1.Delivery_Status_value[string(d.Status)]), AgentName: optional(d.AgentName), TaskId: optional(d.TaskID),
		CreatedAt: timeOf(d.CreatedAt), NextAttemptAt: timeOf(d.NextAt),
		Attempts: listOf(d.Attempts, func(a fleet.DeliveryAttempt) *fleetv1.DeliveryAttempt {
			return &fleetv1.DeliveryAttempt{
				At: timeOf(a.At), DurationMs: int32Of(int(a.Took.Milliseconds())), Code: optional(int32Of(a.Code)), Response: optional(a.Response), Error: optional(a.Error),
			}
		}),
	}
	if d.Seq > 0 {
		out.Cursor = new(cursorOf(d.Seq))
	}
	return out
}
