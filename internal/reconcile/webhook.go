package reconcile

import (
	"context"
	"log/slog"
)

// webhookLease is the key of the lease of the server that sends events to webhooks.
const webhookLease = "webhooks"

// sendWebhooks sends events to webhooks, as long as this server has the lease.
func (r *Reconciler) sendWebhooks(ctx context.Context) {
	r.withLease(ctx, webhookLease, nil, func(leaseCtx context.Context) {
		if err := r.jobs.SendWebhooks(leaseCtx); err != nil && leaseCtx.Err() == nil {
			r.log.ErrorContext(leaseCtx, "webhooks send nothing, retrying", slog.Any("error", err))
		}
	})
}
