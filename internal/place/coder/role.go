package coder

import (
	"context"
	"slices"
	"strings"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// Roles implements fleet.Place.
func (p *Place) Roles(ctx context.Context, name string) ([]fleet.Role, error) {
	proj, err := p.findProject(ctx, name)
	if err != nil {
		return nil, err
	}
	v, err := p.version(ctx, proj.template.ActiveVersionID)
	if err != nil {
		return nil, err
	}
	return proj.roles(v), nil
}

// defaultRole is the name of the default role, and of the only role of templates without roles.
const defaultRole = "coder"

// roles returns the roles of the project: the options of the role parameter, else the presets, else only defaultRole.
// Exactly one role is the default.
func (proj *templateProject) roles(v *version) []fleet.Role {
	var roles []fleet.Role
	preferred := ""
	if param := proj.findRoleParameter(v); param != nil {
		preferred = param.DefaultValue
		for _, o := range param.Options {
			roles = append(roles, fleet.Role{Name: o.Value, DisplayName: o.Name, Description: strings.TrimSpace(o.Description)})
		}
	} else {
		for _, preset := range v.presets {
			if preset.Default {
				preferred = preset.Name
			}
			roles = append(roles, fleet.Role{Name: preset.Name, DisplayName: preset.Name, Description: strings.TrimSpace(preset.Description), Parameters: proj.presetValues(v, preset)})
		}
	}
	if len(roles) == 0 {
		return []fleet.Role{{Name: defaultRole, DisplayName: "Coder", Description: "The only role of this project", Default: true}}
	}
	byName := func(name string) int {
		return slices.IndexFunc(roles, func(r fleet.Role) bool { return strings.EqualFold(r.Name, name) })
	}
	i := byName(defaultRole)
	if i < 0 {
		i = max(byName(preferred), 0)
	}
	roles[i].Default = true
	return roles
}

// roleValues returns the build parameters and the preset that give a workspace the role. It returns ROLE_NOT_FOUND if the
// project does not have the role.
func (proj *templateProject) roleValues(v *version, name string) (values []codersdk.WorkspaceBuildParameter, preset uuid.UUID, err error) {
	if param := proj.findRoleParameter(v); param != nil {
		for _, o := range param.Options {
			if strings.EqualFold(o.Value, name) {
				return []codersdk.WorkspaceBuildParameter{{Name: param.Name, Value: o.Value}}, uuid.Nil, nil
			}
		}
	} else {
		for _, preset := range v.presets {
			if strings.EqualFold(preset.Name, name) {
				return proj.presetRole(v, preset)
			}
		}
		if len(v.presets) == 0 && strings.EqualFold(name, defaultRole) {
			return nil, uuid.Nil, nil
		}
	}
	_, err = fleet.FindRole(proj.roles(v), proj.Name, name)
	return nil, uuid.Nil, err
}

// presetRole returns the build parameters and the preset that give a workspace the role of the preset. Coder prefers the
// values of a preset to the values in a request. So if the preset sets the specification, presetRole returns no preset, and
// returns the preset's other values as parameters.
func (proj *templateProject) presetRole(v *version, preset codersdk.Preset) ([]codersdk.WorkspaceBuildParameter, uuid.UUID, error) {
	spec := proj.findSpecParameter(v)
	if spec == nil || !slices.ContainsFunc(preset.Parameters, func(q codersdk.PresetParameter) bool { return q.Name == spec.Name }) {
		return nil, preset.ID, nil
	}
	var values []codersdk.WorkspaceBuildParameter
	for _, q := range preset.Parameters {
		if q.Name != spec.Name {
			values = append(values, codersdk.WorkspaceBuildParameter(q))
		}
	}
	return values, uuid.Nil, nil
}

// roleOf returns the role of a workspace that was built with the values and the preset, which may be nil. It returns "" if the
// role is unknown.
func (proj *templateProject) roleOf(v *version, values []codersdk.WorkspaceBuildParameter, presetID *uuid.UUID) string {
	if param := proj.findRoleParameter(v); param != nil {
		return valueOf(values, param.Name)
	}
	if len(v.presets) == 0 {
		return defaultRole
	}
	spec := proj.findSpecParameter(v)
	for _, preset := range v.presets {
		if presetID != nil && preset.ID == *presetID {
			return preset.Name
		}
	}
	for _, preset := range v.presets {
		matches := func(want codersdk.PresetParameter) bool {
			return spec != nil && want.Name == spec.Name || valueOf(values, want.Name) == want.Value
		}
		if presetID == nil && !slices.ContainsFunc(preset.Parameters, func(want codersdk.PresetParameter) bool { return !matches(want) }) {
			return preset.Name
		}
	}
	return ""
}

// roleAndSpec returns the role and specification from the workspace's parameters. With an error, it may still return
// the specification.
func (p *Place) roleAndSpec(ctx context.Context, w *workspace) (role, spec string, err error) {
	values, err := p.readBuildParameters(ctx, w.account, w.ws.LatestBuild.ID)
	if err != nil {
		return "", "", err
	}
	v, err := p.versionOrRecentError(ctx, w.ws.LatestBuild.TemplateVersionID)
	if v == nil {
		return "", "", err
	}
	proj := &templateProject{Settings: w.Settings}
	if param := proj.findSpecParameter(v); param != nil {
		spec = valueOf(values, param.Name)
	}
	if err != nil && proj.findRoleParameter(v) == nil {
		return "", spec, err // the role is unknown without the presets
	}
	return proj.roleOf(v, values, w.ws.LatestBuild.TemplateVersionPresetID), spec, nil
}
