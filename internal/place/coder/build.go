package coder

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// buildPause is how long Fleet waits before it reads the state of a build again.
const buildPause = 500 * time.Millisecond

// Start implements fleet.Place.
func (p *Place) Start(ctx context.Context, a fleet.Agent) error {
	at, err := p.find(ctx, a)
	if err != nil {
		return err
	}
	for {
		if at == nil {
			return fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot start the agent %q: its workspace was deleted", a.Name)
		}
		build := at.ws.LatestBuild
		switch build.Status {
		case codersdk.WorkspaceStatusPending, codersdk.WorkspaceStatusStarting:
			if build.Transition == codersdk.WorkspaceTransitionStart {
				return nil
			}
		case codersdk.WorkspaceStatusRunning:
			return nil
		case codersdk.WorkspaceStatusDeleting:
			return fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot start the agent %q: its workspace is being deleted", a.Name)
		case codersdk.WorkspaceStatusStopping, codersdk.WorkspaceStatusCanceling:
		default:
			_, request, err := p.nextStart(ctx, a, at)
			if err != nil {
				return err
			}
			done, err := p.build(ctx, at, request)
			if err != nil || done {
				return err
			}
		}
		if at, err = p.later(ctx, at); err != nil {
			return err
		}
	}
}

// Stop implements fleet.Place. If the workspace is starting, Stop cancels the start, if Coder allows that.
func (p *Place) Stop(ctx context.Context, a fleet.Agent) error {
	at, err := p.find(ctx, a)
	if err != nil {
		return err
	}
	for {
		if at == nil {
			return nil
		}
		build := at.ws.LatestBuild
		switch build.Status {
		case codersdk.WorkspaceStatusStopped, codersdk.WorkspaceStatusStopping, codersdk.WorkspaceStatusDeleting:
			return nil
		case codersdk.WorkspaceStatusPending, codersdk.WorkspaceStatusStarting:
			if build.Transition != codersdk.WorkspaceTransitionStart {
				return nil
			}
			if err := p.cancel(ctx, at); err != nil {
				return err
			}
		case codersdk.WorkspaceStatusCanceling:
		default:
			done, err := p.build(ctx, at, codersdk.CreateWorkspaceBuildRequest{Transition: codersdk.WorkspaceTransitionStop})
			if err != nil || done {
				return err
			}
		}
		if at, err = p.later(ctx, at); err != nil {
			return err
		}
	}
}

// Delete implements fleet.Place. It returns when the workspace has been deleted.
func (p *Place) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	at, err := p.find(ctx, a)
	if errors.Is(err, errNotShown) {
		return fleet.PublicMessage(err) + "; if it exists, it was not deleted", nil
	}
	if err != nil {
		return "", err
	}
	asked := uuid.Nil // the build that this call requested
	for at != nil {
		build := at.ws.LatestBuild
		active := build.Status == codersdk.WorkspaceStatusPending || build.Status == codersdk.WorkspaceStatusStarting ||
			build.Status == codersdk.WorkspaceStatusStopping
		switch {
		case build.Transition == codersdk.WorkspaceTransitionDelete && (active || build.Status == codersdk.WorkspaceStatusDeleting):
		case build.Status == codersdk.WorkspaceStatusCanceling:
		case active && build.Transition == codersdk.WorkspaceTransitionStart:
			if err := p.cancel(ctx, at); err != nil {
				return "", err
			}
		case active:
		case asked != uuid.Nil && build.ID == asked:
			return "", fleet.Errorf(fleet.ReasonProvisioningFailed, "the workspace %s could not be deleted: %s", at.ws.Name, jobError(build.Job))
		default:
			id, err := p.start(ctx, at, codersdk.CreateWorkspaceBuildRequest{Transition: codersdk.WorkspaceTransitionDelete})
			if err != nil && !conflict(err) {
				return "", err
			}
			asked = id
		}
		id := at.ws.ID
		if at, err = p.later(ctx, at); err != nil {
			return "", err
		}
		if at == nil {
			p.known.forget(id)
			p.workspaceFacts.forget(id)
			p.recent.forget(id)
		}
	}
	return "", nil
}

// build requests a build. It returns false and no error if another build is active and must end first.
func (p *Place) build(ctx context.Context, at *workspace, r codersdk.CreateWorkspaceBuildRequest) (bool, error) {
	_, err := p.start(ctx, at, r)
	if conflict(err) {
		return false, nil
	}
	return err == nil, err
}

func (p *Place) start(ctx context.Context, at *workspace, r codersdk.CreateWorkspaceBuildRequest) (uuid.UUID, error) {
	p.batch.wrote(at.ws.ID, p.config.Now())
	defer func() { p.batch.wrote(at.ws.ID, p.config.Now()) }()
	build, err := ask(ctx, "asking Coder to "+string(r.Transition)+" the workspace "+at.ws.Name, func(ctx context.Context) (codersdk.WorkspaceBuild, error) {
		return at.account.sdk.CreateWorkspaceBuild(ctx, at.ws.ID, r)
	})
	return build.ID, err
}

// cancel cancels the active build. It returns nil also if Coder refuses that or the build has ended, so the caller must
// read the state again.
func (p *Place) cancel(ctx context.Context, at *workspace) error {
	_, err := ask(ctx, "canceling a build of "+at.ws.Name, func(ctx context.Context) (struct{}, error) {
		err := at.account.sdk.CancelWorkspaceBuild(ctx, at.ws.LatestBuild.ID, codersdk.CancelWorkspaceBuildParams{})
		switch statusOf(err) {
		case http.StatusForbidden, http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound, http.StatusGone:
			return struct{}{}, nil
		}
		return struct{}{}, err
	})
	return err
}

// later waits for buildPause and reads the workspace again. It returns nil if the workspace does not exist any more.
func (p *Place) later(ctx context.Context, at *workspace) (*workspace, error) {
	if err := p.wait(ctx, buildPause); err != nil {
		return nil, err
	}
	there, err := at.refresh(ctx)
	if err != nil || !there {
		return nil, err
	}
	return at, nil
}
