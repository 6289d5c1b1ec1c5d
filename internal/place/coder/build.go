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

// Start implements fleet.Place. It does not wait until the workspace runs.
func (p *Place) Start(ctx context.Context, a fleet.Agent) error {
	w, err := p.find(ctx, a)
	if err != nil {
		return err
	}
	for {
		if w == nil {
			return fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot start the agent %q: its workspace was deleted", a.Name)
		}
		build := w.ws.LatestBuild
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
			_, request, err := p.nextStart(ctx, a, w)
			if err != nil {
				return err
			}
			requested, err := p.requestBuild(ctx, w, request)
			if err != nil || requested {
				return err
			}
		}
		if w, err = p.waitAndRefresh(ctx, w); err != nil {
			return err
		}
	}
}

// Stop implements fleet.Place. It does not wait until the workspace has stopped. If the workspace is starting, Stop cancels the
// start, if Coder allows that.
func (p *Place) Stop(ctx context.Context, a fleet.Agent) error {
	w, err := p.find(ctx, a)
	if err != nil {
		return err
	}
	for {
		if w == nil {
			return nil
		}
		build := w.ws.LatestBuild
		switch build.Status {
		case codersdk.WorkspaceStatusStopped, codersdk.WorkspaceStatusStopping, codersdk.WorkspaceStatusDeleting:
			return nil
		case codersdk.WorkspaceStatusPending, codersdk.WorkspaceStatusStarting:
			if build.Transition != codersdk.WorkspaceTransitionStart {
				return nil
			}
			if err := p.cancelBuild(ctx, w); err != nil {
				return err
			}
		case codersdk.WorkspaceStatusCanceling:
		default:
			requested, err := p.requestBuild(ctx, w, codersdk.CreateWorkspaceBuildRequest{Transition: codersdk.WorkspaceTransitionStop})
			if err != nil || requested {
				return err
			}
		}
		if w, err = p.waitAndRefresh(ctx, w); err != nil {
			return err
		}
	}
}

// Delete implements fleet.Place. It returns when the workspace has been deleted.
func (p *Place) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	w, err := p.find(ctx, a)
	if errors.Is(err, errNotShown) {
		return fleet.PublicMessage(err) + "; if it exists, it was not deleted", nil
	}
	if err != nil {
		return "", err
	}
	requestedBuild := uuid.Nil // the build that this call requested
	for w != nil {
		build := w.ws.LatestBuild
		active := build.Status == codersdk.WorkspaceStatusPending || build.Status == codersdk.WorkspaceStatusStarting ||
			build.Status == codersdk.WorkspaceStatusStopping
		switch {
		case build.Transition == codersdk.WorkspaceTransitionDelete && (active || build.Status == codersdk.WorkspaceStatusDeleting):
		case build.Status == codersdk.WorkspaceStatusCanceling:
		case active && build.Transition == codersdk.WorkspaceTransitionStart:
			if err := p.cancelBuild(ctx, w); err != nil {
				return "", err
			}
		case active:
		case requestedBuild != uuid.Nil && build.ID == requestedBuild:
			return "", fleet.Errorf(fleet.ReasonProvisioningFailed, "the workspace %s could not be deleted: %s", w.ws.Name, jobError(build.Job))
		default:
			id, err := p.createBuild(ctx, w, codersdk.CreateWorkspaceBuildRequest{Transition: codersdk.WorkspaceTransitionDelete})
			if err != nil && !isConflict(err) {
				return "", err
			}
			requestedBuild = id
		}
		id := w.ws.ID
		if w, err = p.waitAndRefresh(ctx, w); err != nil {
			return "", err
		}
		if w == nil {
			p.index.forget(id)
			p.factCache.forget(id)
			p.recent.forget(id)
		}
	}
	return "", nil
}

// requestBuild requests a build. It returns false and no error if Coder refuses because another build must end first.
func (p *Place) requestBuild(ctx context.Context, w *workspace, r codersdk.CreateWorkspaceBuildRequest) (requested bool, err error) {
	_, err = p.createBuild(ctx, w, r)
	if isConflict(err) {
		return false, nil
	}
	return err == nil, err
}

// createBuild creates a build and returns its id. It makes the workspace's entry in a cached list of workspaces count as outdated.
func (p *Place) createBuild(ctx context.Context, w *workspace, r codersdk.CreateWorkspaceBuildRequest) (uuid.UUID, error) {
	p.listCache.recordBuildRequest(w.ws.ID, p.config.Now())
	defer func() { p.listCache.recordBuildRequest(w.ws.ID, p.config.Now()) }()
	build, err := callCoder(ctx, "asking Coder to "+string(r.Transition)+" the workspace "+w.ws.Name, func(ctx context.Context) (codersdk.WorkspaceBuild, error) {
		return w.account.sdk.CreateWorkspaceBuild(ctx, w.ws.ID, r)
	})
	return build.ID, err
}

// cancelBuild cancels the latest build. It also returns nil if Coder refuses to cancel or the build has ended, so the caller must
// read the state again.
func (p *Place) cancelBuild(ctx context.Context, w *workspace) error {
	_, err := callCoder(ctx, "canceling a build of "+w.ws.Name, func(ctx context.Context) (struct{}, error) {
		err := w.account.sdk.CancelWorkspaceBuild(ctx, w.ws.LatestBuild.ID, codersdk.CancelWorkspaceBuildParams{})
		switch statusOf(err) {
		case http.StatusForbidden, http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound, http.StatusGone:
			return struct{}{}, nil
		}
		return struct{}{}, err
	})
	return err
}

// waitAndRefresh waits for buildPause and reads the workspace again. It returns nil if the workspace no longer exists.
func (p *Place) waitAndRefresh(ctx context.Context, w *workspace) (*workspace, error) {
	if err := p.sleep(ctx, buildPause); err != nil {
		return nil, err
	}
	exists, err := w.refresh(ctx)
	if err != nil || !exists {
		return nil, err
	}
	return w, nil
}
