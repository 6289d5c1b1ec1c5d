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

// catalogAge is the maximum age of the cached list of templates when Fleet lists workspaces.
const catalogAge = 30 * time.Second

// recentCatalog is the maximum age of the cached list of templates when Fleet looks for a project.
const recentCatalog = 5 * time.Second

// catalog caches templates and their versions.
type catalog struct {
	mu       sync.Mutex
	at       time.Time
	projects []*project
	versions map[uuid.UUID]*version // versions never change
	unread   map[uuid.UUID]unread   // versions that could not be read, or only in part
}

func (c *catalog) init() {
	c.versions, c.unread = map[uuid.UUID]*version{}, map[uuid.UUID]unread{}
}

// project is a template that can host agents.
type project struct {
	fleet.Project
	Settings
	template codersdk.Template
	unsure   bool // the template's version cannot be read, so it is unknown whether the template can host agents
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

// project returns the project with the name. It uses a list of templates that is at most recentCatalog old: the calls that
// create an agent share one. It returns PROJECT_NOT_FOUND if no template matches.
func (b *Place) project(ctx context.Context, name string) (*project, error) {
	begun := b.config.Now()
	p, err := b.projectOf(ctx, name, recentCatalog)
	b.catalog.mu.Lock()
	cached := b.catalog.at.Before(begun)
	b.catalog.mu.Unlock()
	if cached && fleet.ReasonOf(err) == fleet.ReasonProjectNotFound { // the template may be new
		return b.projectOf(ctx, name, 0)
	}
	return p, err
}

func (b *Place) projectOf(ctx context.Context, name string, age time.Duration) (*project, error) {
	all, err := b.projects(ctx, age)
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

// projects returns all projects, sorted by name. If the cached list is younger than age, projects returns it. It
// includes projects that are unsure.
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
		if v == nil { // the version was deleted meanwhile, is not visible for this user, or is broken: go on with the other templates
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
			SpecIsTask: p.begins(v), Groups: b.groups(t, name, named), Parameters: p.parameters(v),
		}
		found = append(found, p)
	}
	if len(templates) == 0 { // Coder hides what a token may not see
		if _, err := b.whoami(ctx); err != nil {
			return nil, err
		}
	}
	uniqueNames(found)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.projects, c.at = found, b.config.Now()
	return found, nil
}

// groups returns the groups to which the project of the template is restricted. It uses the access of the project's own
// entry, else the access of the template's organization, else the access for all projects.
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

// configured returns the name under which the configuration lists the template, and whether it lists the template.
func (b *Place) configured(t codersdk.Template) (string, bool) {
	for name, p := range b.config.Projects {
		if strings.EqualFold(p.Template, t.Name) {
			return name, true
		}
	}
	return "", false
}

// uniqueNames makes the names of projects unique and sorts the projects. Several projects can have the same display
// name, which is free text. Names of templates are unique only within an organization.
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
