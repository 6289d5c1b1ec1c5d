package coder

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// catalogAge is the maximum age of the list of templates when workspaces are listed.
const catalogAge = 30 * time.Second

// catalog caches templates and their versions.
type catalog struct {
	mu       sync.Mutex
	at       time.Time
	projects []*project
	versions map[uuid.UUID]*version // versions never change
	unread   map[uuid.UUID]unread   // versions that Coder returned incompletely or not at all
}

func (c *catalog) init() {
	c.versions, c.unread = map[uuid.UUID]*version{}, map[uuid.UUID]unread{}
}

// unread records a failed read.
type unread struct {
	err   error
	at    time.Time // of the last attempt
	tries int
	known *version // the part that could be read; nil: nothing
}

// project is a template that can host agents.
type project struct {
	fleet.Project
	Settings
	template codersdk.Template
	unsure   bool // its version cannot be read, so it may or may not host agents
}

// version is the cached part of a template version.
type version struct {
	parameters []codersdk.TemplateVersionParameter
	presets    []codersdk.Preset // those with names, sorted by name
}

// Projects implements fleet.Place.
func (b *Place) Projects(ctx context.Context) ([]fleet.Project, error) {
	all, err := b.projects(ctx, 0)
	if err != nil {
		return nil, err
	}
	out := make([]fleet.Project, 0, len(all))
	for _, p := range all {
		if !p.unsure {
			out = append(out, p.Project)
		}
	}
	return out, nil
}

// Roles implements fleet.Place.
func (b *Place) Roles(ctx context.Context, name string) ([]fleet.Role, error) {
	p, err := b.project(ctx, name)
	if err != nil {
		return nil, err
	}
	v, err := b.version(ctx, p.template.ActiveVersionID)
	if err != nil {
		return nil, err
	}
	return p.roles(v), nil
}

// project finds the project by name.
func (b *Place) project(ctx context.Context, name string) (*project, error) {
	all, err := b.projects(ctx, 0)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(p *project) bool { return p.unsure })
	var names []string
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	for _, p := range all { // the display name may have changed since the agent was created
		if p.Matches(name) {
			return p, nil
		}
	}
	list := "there are none"
	if len(names) > 0 {
		list = "there are " + strings.Join(names, ", ")
	}
	return nil, fleet.Errorf(fleet.ReasonProjectNotFound, "Coder has no template for the project %q: %s", name, list)
}

// projects returns all projects, sorted by name. It uses the cache unless that is older than age.
func (b *Place) projects(ctx context.Context, age time.Duration) ([]*project, error) {
	c := &b.catalog
	c.mu.Lock()
	old, at := c.projects, c.at
	c.mu.Unlock()
	if age > 0 && !at.IsZero() && b.config.Now().Sub(at) < age {
		return old, ctx.Err()
	}
	templates, err := ask(ctx, "listing Coder's templates", func(ctx context.Context) ([]codersdk.Template, error) {
		return b.self.sdk.Templates(ctx, codersdk.TemplateFilter{})
	})
	if err != nil {
		return nil, err
	}
	found := make([]*project, 0, len(templates))
	inUse := map[uuid.UUID]bool{}
	for _, t := range templates {
		name, named := b.configured(t)
		p := &project{template: t, Settings: b.config.Settings}
		if named {
			p.Settings = b.config.Projects[name].Settings
		}
		v, err := b.version(ctx, t.ActiveVersionID)
		if err != nil && isThrottled(err) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if v == nil { // deleted meanwhile, not visible for this user, or broken: return the others
			v, p.unsure = &version{}, !named
		}
		inUse[t.ActiveVersionID] = true
		if !named && !p.unsure && !p.hosts(v) {
			continue
		}
		display := t.DisplayName
		if display == "" {
			display = t.Name
		}
		if !named {
			name = display
		}
		p.Project = fleet.Project{
			Name: name, DisplayName: display, Description: strings.TrimSpace(t.Description), TemplateID: t.ID.String(), TemplateName: t.Name,
			SpecIsTask: p.begins(v), Groups: b.groups(t, name, named),
		}
		found = append(found, p)
	}
	uniqueNames(found)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.projects, c.at = found, b.config.Now()
	return found, nil
}

// groups returns the groups that the project of the template is restricted to: by its own entry, by that of its organization, or
// by what is configured for all.
func (b *Place) groups(t codersdk.Template, name string, named bool) []string {
	access := b.config.Access
	for organization, o := range b.config.Organizations {
		if strings.EqualFold(organization, t.OrganizationName) && o.Access != nil {
			access = o.Access
		}
	}
	if named && b.config.Projects[name].Access != nil {
		access = b.config.Projects[name].Access
	}
	return access.List()
}

// configured returns the configured name of the template.
func (b *Place) configured(t codersdk.Template) (string, bool) {
	for name, p := range b.config.Projects {
		if strings.EqualFold(p.Template, t.Name) {
			return name, true
		}
	}
	return "", false
}

// uniqueNames makes the names of projects unique and sorts the projects. Display names are free text, and names of
// templates are unique only within an organization.
func uniqueNames(all []*project) {
	for _, rename := range []func(*project) string{
		func(p *project) string { return p.template.Name },
		func(p *project) string { return p.template.OrganizationName + "/" + p.template.Name },
	} {
		count := map[string]int{}
		for _, p := range all {
			count[strings.ToLower(p.Name)]++
		}
		for _, p := range all {
			if count[strings.ToLower(p.Name)] > 1 {
				p.Name = rename(p)
			}
		}
	}
	slices.SortFunc(all, func(a, b *project) int { return cmp.Compare(a.Name, b.Name) })
}

// knownVersion returns the template version for a listing. It does not repeat a recent failed read. With an error it
// returns the part that could be read, or nil.
func (b *Place) knownVersion(ctx context.Context, id uuid.UUID) (*version, error) {
	c := &b.catalog
	c.mu.Lock()
	u, failed := c.unread[id]
	c.mu.Unlock()
	now := b.config.Now()
	if failed && now.Sub(u.at) < catalogAge {
		return u.known, u.err
	}
	v, err := b.version(ctx, id)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unread, id)
	if err != nil && !isThrottled(err) {
		if len(c.unread) > 1000 {
			clear(c.unread)
		}
		c.unread[id] = unread{err: err, at: now, known: v}
	}
	return v, err
}

// version returns the template version. With an error it returns nil, or the version without presets.
func (b *Place) version(ctx context.Context, id uuid.UUID) (*version, error) {
	c := &b.catalog
	c.mu.Lock()
	v := c.versions[id]
	c.mu.Unlock()
	if v != nil {
		return v, ctx.Err()
	}
	v = &version{}
	var err error
	v.parameters, err = ask(ctx, "reading a template's parameters", func(ctx context.Context) ([]codersdk.TemplateVersionParameter, error) {
		return b.self.sdk.TemplateVersionRichParameters(ctx, id)
	})
	if err != nil {
		return nil, err
	}
	presets, err := ask(ctx, "reading a template's presets", func(ctx context.Context) ([]codersdk.Preset, error) {
		return b.self.sdk.TemplateVersionPresets(ctx, id)
	})
	if err != nil {
		return v, err
	}
	for _, p := range presets { // Coder returns them unordered, and some without a name
		if strings.TrimSpace(p.Name) != "" {
			v.presets = append(v.presets, p)
		}
	}
	slices.SortFunc(v.presets, func(a, b codersdk.Preset) int { return cmp.Compare(a.Name, b.Name) })
	v.presets = slices.CompactFunc(v.presets, func(a, b codersdk.Preset) bool { return a.Name == b.Name })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.versions) > 1000 {
		clear(c.versions)
	}
	c.versions[id] = v
	return v, nil
}

// parameter returns the first parameter that has one of the names.
func (v *version) parameter(names ...string) *codersdk.TemplateVersionParameter {
	for _, name := range names {
		for i := range v.parameters {
			if v.parameters[i].Name == name {
				return &v.parameters[i]
			}
		}
	}
	return nil
}

// role returns the parameter for the agent's role; nil if there is none.
func (s Settings) role(v *version) *codersdk.TemplateVersionParameter {
	p := v.parameter(orList(s.RoleParameter, roleParameters)...)
	if p == nil || len(p.Options) == 0 {
		return nil
	}
	return p
}

// spec returns the parameter for the agent's specification; nil if there is none.
func (s Settings) spec(v *version) *codersdk.TemplateVersionParameter {
	return v.parameter(orList(s.SpecParameter, specParameters)...)
}

// hosts reports whether a template of the version can host agents.
func (s Settings) hosts(v *version) bool {
	return s.spec(v) != nil || v.parameter(orList(s.RoleParameter, roleParameters)...) != nil || v.parameter(hostParameters...) != nil
}

// defaultRole is the name of the default role, and of the only role of templates without roles.
const defaultRole = "coder"

// roles returns the roles of the project.
func (p *project) roles(v *version) []fleet.Role {
	var roles []fleet.Role
	preferred := ""
	if param := p.role(v); param != nil {
		preferred = param.DefaultValue
		for _, o := range param.Options {
			roles = append(roles, fleet.Role{Name: o.Value, DisplayName: o.Name, Description: strings.TrimSpace(o.Description)})
		}
	} else {
		for _, preset := range v.presets {
			if preset.Default {
				preferred = preset.Name
			}
			roles = append(roles, fleet.Role{Name: preset.Name, DisplayName: preset.Name, Description: strings.TrimSpace(preset.Description)})
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

// asRole returns the build parameters and the preset for a workspace with the role.
func (p *project) asRole(v *version, name string) (values []codersdk.WorkspaceBuildParameter, preset uuid.UUID, err error) {
	if param := p.role(v); param != nil {
		for _, o := range param.Options {
			if strings.EqualFold(o.Value, name) {
				return []codersdk.WorkspaceBuildParameter{{Name: param.Name, Value: o.Value}}, uuid.Nil, nil
			}
		}
	} else {
		for _, preset := range v.presets {
			if strings.EqualFold(preset.Name, name) {
				return p.usePreset(v, preset)
			}
		}
		if len(v.presets) == 0 && strings.EqualFold(name, defaultRole) {
			return nil, uuid.Nil, nil
		}
	}
	var names []string
	for _, r := range p.roles(v) {
		names = append(names, r.Name)
	}
	return nil, uuid.Nil, fleet.Errorf(fleet.ReasonRoleNotFound, "the project %q has no role %q: its roles are %s", p.Name, name, strings.Join(names, ", "))
}

// usePreset returns the build parameters and the preset for a workspace with that preset. The values of a preset
// override those of the request, so a preset that sets the specification is not used: its other values are sent as
// parameters.
func (p *project) usePreset(v *version, preset codersdk.Preset) ([]codersdk.WorkspaceBuildParameter, uuid.UUID, error) {
	spec := p.spec(v)
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

// roleOf returns the role of a workspace that was built with the values and the preset; empty if unknown.
func (p *project) roleOf(v *version, values []codersdk.WorkspaceBuildParameter, preset *uuid.UUID) string {
	if param := p.role(v); param != nil {
		return valueOf(values, param.Name)
	}
	if len(v.presets) == 0 {
		return defaultRole
	}
	spec := p.spec(v)
	for _, q := range v.presets {
		if preset != nil && q.ID == *preset {
			return q.Name
		}
	}
	for _, q := range v.presets {
		same := func(want codersdk.PresetParameter) bool {
			return spec != nil && want.Name == spec.Name || valueOf(values, want.Name) == want.Value
		}
		if preset == nil && !slices.ContainsFunc(q.Parameters, func(want codersdk.PresetParameter) bool { return !same(want) }) {
			return q.Name
		}
	}
	return ""
}

func valueOf(values []codersdk.WorkspaceBuildParameter, name string) string {
	for _, v := range values {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}
