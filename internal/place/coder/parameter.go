package coder

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// parameterTypes are Fleet's names of the types of parameters. Other types are texts.
var parameterTypes = map[string]fleet.ParameterType{
	"number": fleet.ParameterNumber, "bool": fleet.ParameterBool, "list(string)": fleet.ParameterList,
}

// parameters returns the template's parameters that a caller can choose. Fleet sets the others itself. A parameter that
// counts for one build only is not for an agent, which outlives its builds.
func (s Settings) parameters(v *version) []fleet.Parameter {
	var list []fleet.Parameter
	for i := range v.parameters {
		q := &v.parameters[i]
		if q.Ephemeral || q == s.role(v) || q == s.spec(v) || q.Name == ownerParameter || q.Name == keyParameter {
			continue
		}
		p := fleet.Parameter{
			Name: q.Name, DisplayName: q.DisplayName, Description: strings.TrimSpace(cmp.Or(q.DescriptionPlaintext, q.Description)),
			Type: cmp.Or(parameterTypes[q.Type], fleet.ParameterText), Required: q.Required, Default: q.DefaultValue,
			Min: whole(q.ValidationMin), Max: whole(q.ValidationMax), Pattern: q.ValidationRegex, PatternError: plain(q.ValidationError),
		}
		for _, o := range q.Options {
			p.Options = append(p.Options, o.Value)
		}
		list = append(list, p)
	}
	return list
}

func whole(n *int32) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

// sets returns the values that a preset sets, except for the specification.
func (s Settings) sets(v *version, preset codersdk.Preset) map[string]string {
	values := map[string]string{}
	for _, q := range preset.Parameters {
		if spec := s.spec(v); spec == nil || spec.Name != q.Name {
			values[q.Name] = q.Value
		}
	}
	return values
}

// chosen returns the agent's parameters as parameters of a build.
func chosen(values map[string]string) []codersdk.WorkspaceBuildParameter {
	var list []codersdk.WorkspaceBuildParameter
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, codersdk.WorkspaceBuildParameter{Name: name, Value: values[name]})
	}
	return list
}

// CheckStart implements fleet.Versioner.
func (p *Place) CheckStart(ctx context.Context, a fleet.Agent) (string, error) {
	at, err := p.find(ctx, a)
	if err != nil {
		return "", err
	}
	if at == nil {
		if a.WorkspaceID != "" {
			return "", fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot start the agent %q: its workspace was deleted", a.Name)
		}
		proj, err := p.project(ctx, a.Project)
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
	role, _, err := p.nextStart(ctx, a, at)
	return role, err
}

// nextStart returns the role that the workspace has after its next start, and the request that starts it. The request has
// only what Agent.Next changes, and Fleet's key if it has changed: Coder keeps the other values of the last build. So a
// start never takes back what somebody has changed in Coder, and does not depend on roles that the template no longer has.
func (p *Place) nextStart(ctx context.Context, a fleet.Agent, at *workspace) (string, codersdk.CreateWorkspaceBuildRequest, error) {
	request := codersdk.CreateWorkspaceBuildRequest{Transition: codersdk.WorkspaceTransitionStart}
	build := at.ws.LatestBuild
	now, err := p.version(ctx, build.TemplateVersionID)
	if err != nil {
		return "", request, err
	}
	values, err := p.values(ctx, at.account, build.ID)
	if err != nil {
		return "", request, err
	}
	next, role := now, a.Role
	update := (a.Next.Update || at.ws.TemplateRequireActiveVersion) && at.ws.TemplateActiveVersionID != build.TemplateVersionID
	if update {
		if next, err = p.version(ctx, at.ws.TemplateActiveVersionID); err != nil {
			return "", request, err
		}
		request.TemplateVersionID = at.ws.TemplateActiveVersionID
	}
	if update || a.Next.Role || a.Next.Parameters {
		proj := &project{Project: fleet.Project{Name: a.Project}, Settings: at.Settings}
		if role, err = p.change(proj, &request, a, next, values, proj.roleOf(now, values, build.TemplateVersionPresetID), update); err != nil {
			return "", request, err
		}
	}
	request.RichParameterValues = p.withKey(next, values, request.RichParameterValues)
	return role, request, nil
}

// change adds to the request what changes with the next start: the role, the agent's parameters and, if the workspace is
// updated, what the version v needs. values and had are the values and the role of the last build. It returns the exact
// name of the role. It refuses what Coder would refuse, because Coder refuses it only when the workspace is stopped.
func (p *Place) change(
	proj *project, request *codersdk.CreateWorkspaceBuildRequest, a fleet.Agent, v *version, values []codersdk.WorkspaceBuildParameter, had string, update bool,
) (string, error) {
	proj.Parameters = proj.parameters(v)
	role := fleet.Role{Name: had}
	if a.Next.Role || update {
		var err error
		if role, err = fleet.FindRole(proj.roles(v), proj.Name, a.Role); err != nil {
			return "", err
		}
		if role.Name != had || update {
			if request.RichParameterValues, request.TemplateVersionPresetID, err = proj.asRole(v, role.Name); err != nil {
				return "", err
			}
		}
	}
	if param := proj.role(v); param != nil && !param.Mutable && role.Name != had {
		return "", fleet.Invalid(fleet.ReasonInvalidArgument, "role", "the role of the agent %q cannot be changed: in its template, the parameter %q is set once, when the workspace is made", a.Name, param.Name)
	}
	all := map[string]string{} // the caller's values, and those that stay
	for _, q := range proj.Parameters {
		if _, set := role.Parameters[q.Name]; set {
			continue
		}
		old, was := find(values, q.Name)
		value, choose := a.Parameters[q.Name]
		choose = choose && (a.Next.Parameters || !was)
		switch {
		case choose && was && value != old && !v.parameter(q.Name).Mutable:
			return "", fleet.Invalid(fleet.ReasonInvalidArgument, "parameters", "the parameter %q of the agent %q cannot be changed: its template sets it once, when the workspace is made", q.Name, a.Name).
				With("parameter", q.Name)
		case choose:
			all[q.Name] = value
			request.RichParameterValues = append(request.RichParameterValues, codersdk.WorkspaceBuildParameter{Name: q.Name, Value: value})
		case was:
			all[q.Name] = old
		}
	}
	if a.Next.Parameters {
		for name, value := range a.Parameters {
			if v.parameter(name) == nil { // CheckParameters says so
				all[name] = value
			}
		}
	}
	return role.Name, proj.CheckParameters(role, all)
}

// find returns the value with the name, and whether there is one.
func find(values []codersdk.WorkspaceBuildParameter, name string) (string, bool) {
	i := slices.IndexFunc(values, func(v codersdk.WorkspaceBuildParameter) bool { return v.Name == name })
	if i < 0 {
		return "", false
	}
	return values[i].Value, true
}
