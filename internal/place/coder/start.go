package coder

import (
	"context"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// CheckStart implements fleet.Versioner.
func (p *Place) CheckStart(ctx context.Context, a fleet.Agent) (string, error) {
	w, err := p.find(ctx, a)
	if err != nil {
		return "", err
	}
	if w == nil {
		if a.WorkspaceID != "" {
			return "", fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot start the agent %q: its workspace was deleted", a.Name)
		}
		proj, err := p.findProject(ctx, a.Project)
		if err != nil {
			return "", err
		}
		v, err := p.version(ctx, proj.template.ActiveVersionID)
		if err != nil {
			return "", err
		}
		role, err := fleet.FindRole(proj.roles(v), proj.Name, a.Role)
		return role.Name, err
	}
	role, _, err := p.nextStart(ctx, a, w)
	return role, err
}

// nextStart returns the role that the workspace has after its next start, and the request that starts it. Without an update of
// the template's version, the request has only the changes in Agent.Next, and Fleet's key if it has changed, because Coder
// keeps the other values of the last build. So a start does not revert changes that somebody has made in Coder, and does not
// depend on roles that the template no longer has. With an update, the role must exist in the new version.
func (p *Place) nextStart(ctx context.Context, a fleet.Agent, w *workspace) (string, codersdk.CreateWorkspaceBuildRequest, error) {
	request := codersdk.CreateWorkspaceBuildRequest{Transition: codersdk.WorkspaceTransitionStart}
	build := w.ws.LatestBuild
	current, err := p.version(ctx, build.TemplateVersionID)
	if err != nil {
		return "", request, err
	}
	values, err := p.readBuildParameters(ctx, w.account, build.ID)
	if err != nil {
		return "", request, err
	}
	next, role := current, a.Role
	update := (a.Next.Update || w.ws.TemplateRequireActiveVersion) && w.ws.TemplateActiveVersionID != build.TemplateVersionID
	if update {
		if next, err = p.version(ctx, w.ws.TemplateActiveVersionID); err != nil {
			return "", request, err
		}
		request.TemplateVersionID = w.ws.TemplateActiveVersionID
	}
	if update || a.Next.Role || a.Next.Parameters {
		proj := &templateProject{Project: fleet.Project{Name: a.Project}, Settings: w.Settings}
		if role, err = p.addChanges(proj, &request, a, next, values, proj.roleOf(current, values, build.TemplateVersionPresetID), update); err != nil {
			return "", request, err
		}
	}
	request.RichParameterValues = p.withPublicKey(next, values, request.RichParameterValues)
	return role, request, nil
}

// addChanges adds the changes of the next start to the request: the role, the agent's parameters and, if update is set, the
// values that the version v needs. values and oldRole are the values and the role of the last build. It returns the exact name
// of the role. It returns an error for changes that Coder would refuse, because Coder refuses them only after the workspace
// was stopped.
func (p *Place) addChanges(
	proj *templateProject, request *codersdk.CreateWorkspaceBuildRequest, a fleet.Agent, v *version, values []codersdk.WorkspaceBuildParameter, oldRole string, update bool,
) (string, error) {
	proj.Parameters = proj.parameters(v)
	role := fleet.Role{Name: oldRole}
	if a.Next.Role || update {
		var err error
		if role, err = fleet.FindRole(proj.roles(v), proj.Name, a.Role); err != nil {
			return "", err
		}
		if role.Name != oldRole || update {
			if request.RichParameterValues, request.TemplateVersionPresetID, err = proj.roleValues(v, role.Name); err != nil {
				return "", err
			}
		}
	}
	if param := proj.findRoleParameter(v); param != nil && !param.Mutable && role.Name != oldRole {
		return "", fleet.InvalidField("role", "the role of the agent %q cannot be changed: in its template, the parameter %q is set once, when the workspace is made", a.Name, param.Name)
	}
	effective := map[string]string{} // the caller's values, and the old values that stay
	for _, q := range proj.Parameters {
		if _, set := role.Parameters[q.Name]; set {
			continue
		}
		oldValue, hadValue := lookUpValue(values, q.Name)
		value, useNew := a.Parameters[q.Name]
		useNew = useNew && (a.Next.Parameters || !hadValue)
		switch {
		case useNew && hadValue && value != oldValue && !v.parameter(q.Name).Mutable:
			return "", fleet.InvalidField("parameters", "the parameter %q of the agent %q cannot be changed: its template sets it once, when the workspace is made", q.Name, a.Name).
				With("parameter", q.Name)
		case useNew:
			effective[q.Name] = value
			request.RichParameterValues = append(request.RichParameterValues, codersdk.WorkspaceBuildParameter{Name: q.Name, Value: value})
		case hadValue:
			effective[q.Name] = oldValue
		}
	}
	if a.Next.Parameters {
		for name, value := range a.Parameters {
			if v.parameter(name) == nil { // CheckParameters refuses it
				effective[name] = value
			}
		}
	}
	return role.Name, proj.CheckParameters(role, effective)
}
