package rpc

import (
	"context"
	"math"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ListCredentials lists the credentials that the caller may see, with their usage windows.
func (f *Fleet) ListCredentials(ctx context.Context, r *fleetv1.ListCredentialsRequest) (*fleetv1.ListCredentialsResponse, error) {
	all, err := f.svc.ListCredentials(ctx)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(all, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListCredentialsResponse{Credentials: credentialsOf(part, f.svc.Now()), TotalCount: int32Of(len(all)), NextCursor: optional(next)}, nil
}

// ReleaseCredential lets tasks start again with a credential that is held.
func (f *Fleet) ReleaseCredential(ctx context.Context, r *fleetv1.ReleaseCredentialRequest) (*fleetv1.ReleaseCredentialResponse, error) {
	if err := f.svc.ReleaseCredential(ctx, r.GetName()); err != nil {
		return nil, err
	}
	return &fleetv1.ReleaseCredentialResponse{Message: "Credential released successfully"}, nil
}

func credentialsOf(all []service.CredentialView, now time.Time) []*fleetv1.Credential {
	return listOf(all, func(c service.CredentialView) *fleetv1.Credential {
		credential := &fleetv1.Credential{
			Name: textOf(c.Name), State: string(c.StateAt(now)), KeepFree: int32Of(int(math.Round(100 * c.KeepFree))), Agents: int32Of(c.Agents), Running: int32Of(c.Running),
		}
		for _, w := range c.Windows {
			credential.Windows = append(credential.Windows, &fleetv1.UsageWindow{
				Name: textOf(w.Window), Used: w.UsedAt(now), UsedUp: w.UsedUp(now), ResetsAt: timeOf(w.ResetsAt), ReportedAt: timeOf(w.At),
			})
		}
		if h := c.Hold; h != nil {
			credential.Hold = &fleetv1.CredentialHold{ReasonCode: string(h.Code), Reason: textOf(h.Reason), TaskId: h.TaskID, At: timeOf(h.At)}
		}
		return credential
	})
}
