package coder

import (
	"context"
	"errors"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// Provision implements fleet.Place. If an earlier, interrupted call has created the workspace, Provision returns that
// workspace. Provision recognises it by the agent's name, owner and project, and because it is not older than the agent.
func (p *Place) Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Workspace{}, err
	}
	proj, err := p.findProject(ctx, a.Project)
	if fleet.ReasonOf(err) == fleet.ReasonProjectNotFound {
		return fleet.Workspace{}, fleet.Errorf(fleet.ReasonProvisioningFailed, "%s", fleet.PublicMessage(err))
	}
	if err != nil {
		return fleet.Workspace{}, err
	}
	user, acc, err := p.ownerAccount(ctx, a)
	if err != nil {
		return fleet.Workspace{}, err
	}
	if w, err := p.findIn(ctx, a, proj); err != nil || w != nil {
		if err != nil {
			return fleet.Workspace{}, err
		}
		return p.inspect(ctx, a, w)
	}
	request, err := p.createRequest(ctx, a, proj)
	if err != nil {
		return fleet.Workspace{}, err
	}
	ws, err := callCoder(ctx, "making the workspace "+request.Name, func(ctx context.Context) (codersdk.Workspace, error) {
		return acc.sdk.CreateUserWorkspace(ctx, user, request)
	})
	switch {
	case err == nil && ws.ID == uuid.Nil:
		return fleet.Workspace{}, unavailable("making the workspace %s failed: the answer names no workspace", request.Name)
	case err == nil:
		p.index.set(a.UID, ws.ID)
		p.recordUserID(user, ws.OwnerID)
		p.config.Logger.InfoContext(ctx, "workspace created", "workspace", ws.Name, "owner", ws.OwnerName)
		return p.inspect(ctx, a, p.workspace(ws, acc))
	case isConflict(err):
		return p.handleNameConflict(ctx, a, proj, user, acc, err)
	}
	return fleet.Workspace{}, p.withAgentField(ctx, proj, err)
}

// withAgentField changes an error of Coder about a parameter: instead of the parameter, the error names the field of the agent
// from which the parameter was set.
func (p *Place) withAgentField(ctx context.Context, proj *templateProject, err error) error {
	var e *fleet.Error
	if !errors.As(err, &e) || e.Field == "" {
		return err
	}
	v, verr := p.version(ctx, proj.template.ActiveVersionID)
	if verr != nil {
		return err
	}
	field := e.Field
	if spec := proj.findSpecParameter(v); spec != nil && spec.Name == field {
		field = "spec"
	} else if role := proj.findRoleParameter(v); role != nil && role.Name == field {
		field = "role"
	}
	c := *e
	c.Field = field
	return c.With("field", field)
}

// createRequest returns the request that creates the agent's workspace. It sets the specification, the owner and Fleet's key only
// if the template declares a parameter for them, because Coder accepts and ignores other parameters.
func (p *Place) createRequest(ctx context.Context, a fleet.Agent, proj *templateProject) (codersdk.CreateWorkspaceRequest, error) {
	request := codersdk.CreateWorkspaceRequest{TemplateID: proj.template.ID, Name: proj.prefix() + a.Name}
	if err := codersdk.NameValid(request.Name); err != nil {
		return request, fleet.Invalid(fleet.ReasonInvalidName, "name", "Coder does not accept the workspace name %q: use a shorter name, or a shorter prefix", request.Name)
	}
	v, err := p.version(ctx, proj.template.ActiveVersionID)
	if err != nil {
		return request, err
	}
	if request.RichParameterValues, request.TemplateVersionPresetID, err = proj.roleValues(v, a.Role); err != nil {
		return request, err
	}
	if spec := proj.findSpecParameter(v); spec != nil {
		request.RichParameterValues = append(request.RichParameterValues, codersdk.WorkspaceBuildParameter{Name: spec.Name, Value: a.Spec})
	}
	request.RichParameterValues = append(request.RichParameterValues, toBuildParameters(a.Parameters)...)
	if p.config.Owner == OwnerSelf && v.parameter(ownerParameter) != nil {
		request.RichParameterValues = append(request.RichParameterValues, codersdk.WorkspaceBuildParameter{Name: ownerParameter, Value: a.Owner})
	}
	request.RichParameterValues = p.withPublicKey(v, nil, request.RichParameterValues)
	return request, nil
}

// handleNameConflict is called if Coder reports that a workspace with the agent's name exists. It returns that
// workspace if it was created for the agent, else an error.
func (p *Place) handleNameConflict(ctx context.Context, a fleet.Agent, proj *templateProject, user string, acc *account, cause error) (fleet.Workspace, error) {
	name := proj.prefix() + a.Name
	ws, err := p.getByName(ctx, user, acc, name)
	switch {
	case err != nil:
		return fleet.Workspace{}, err
	case ws == nil:
		return fleet.Workspace{}, unavailable("making the workspace %s failed: Coder reports that the name is in use, but shows no such workspace", name).WithCause(cause)
	case p.wasCreatedFor(a, proj, *ws):
		p.index.set(a.UID, ws.ID)
		return p.inspect(ctx, a, p.workspace(*ws, acc))
	case ws.LatestBuild.Status == codersdk.WorkspaceStatusDeleting:
		return fleet.Workspace{}, unavailable("the workspace %s of an earlier agent is still being deleted", name)
	}
	return fleet.Workspace{}, fleet.Errorf(fleet.ReasonAgentExists,
		"Coder already has a workspace %s, which was not created for this agent: choose another name, or delete that workspace first", name).With("field", "name")
}
