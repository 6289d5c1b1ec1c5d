package reconcile

import (
	"context"
	"log/slog"
)

// webhookLease is the key of the lease of the server that sends events to webhooks.
const webhookLease = "webhooks"

// sendWebhooks sends events to webhooks, as long as this server has the lease.
func (r *Reconciler) sendWebhooks(ctx context.Context) {
	r.withLease(ctx, webhookLease, nil, func(held context.Context) {
		if err := r.jobs.SendWebhooks(held); err != nil && held.Err() == nil {
			r.log.ErrorContext(held, "webhooks send nothing, retrying", slog.Any("error", err))
		}
	})
}
