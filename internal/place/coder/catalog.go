package coder

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// catalogAge is the maximum age of the cached list of templates when Fleet lists workspaces, or the workspaces in which work can land.
const catalogAge = 30 * time.Second

// recentCatalogAge is the maximum age of the cached list of templates when Fleet looks for a project.
const recentCatalogAge = 5 * time.Second

// catalog caches templates and their versions.
type catalog struct {
	mu       sync.Mutex
	listedAt time.Time
	projects []*templateProject
	versions map[uuid.UUID]*version    // versions never change
	failures map[uuid.UUID]readFailure // failures to read versions completely
}

// templateProject is a template that can host agents.
type templateProject struct {
	fleet.Project
	Settings
	template codersdk.Template
	readErr  error // why the template's version cannot be read, so that it is unknown whether the template can host agents
}

// Projects implements fleet.Place.
func (p *Place) Projects(ctx context.Context) ([]fleet.Project, error) {
	all, err := p.projects(ctx, 0)
	if err != nil {
		return nil, err
	}
	out := make([]fleet.Project, 0, len(all))
	for _, proj := range all {
		if proj.readErr == nil {
			out = append(out, proj.Project)
		}
	}
	return out, nil
}

// findProject returns the project with the name. It uses a list of templates that is at most recentCatalogAge old, so that all
// calls that create one agent share one list. If no template in a cached list matches, it requests a new list. It returns
// PROJECT_NOT_FOUND if no template matches, and BACKEND_UNAVAILABLE if the only one that matches cannot be read for now.
func (p *Place) findProject(ctx context.Context, name string) (*templateProject, error) {
	started := p.config.Now()
	proj, err := p.findListedProject(ctx, name, recentCatalogAge)
	p.catalog.mu.Lock()
	usedCache := p.catalog.listedAt.Before(started)
	p.catalog.mu.Unlock()
	if usedCache && fleet.ReasonOf(err) == fleet.ReasonProjectNotFound { // the template may be new
		proj, err = p.findListedProject(ctx, name, 0)
	}
	if unreadable, ok := errors.AsType[*unreadableError](err); ok {
		return nil, unavailable("the template of the project %q cannot be read: %s", name, fleet.PublicMessage(unreadable.error)).WithCause(unreadable.error)
	}
	return proj, err
}

// unreadableError is the cause of PROJECT_NOT_FOUND if a template matches whose version cannot be read for now.
type unreadableError struct{ error }

// findListedProject returns the project with the name from a list of templates that is at most maxAge old. It returns
// PROJECT_NOT_FOUND if no template that can be read matches.
func (p *Place) findListedProject(ctx context.Context, name string, maxAge time.Duration) (*templateProject, error) {
	all, err := p.projects(ctx, maxAge)
	if err != nil {
		return nil, err
	}
	var cause error
	all = slices.DeleteFunc(slices.Clone(all), func(proj *templateProject) bool {
		switch fleet.ReasonOf(proj.readErr) {
		case fleet.ReasonPermissionDenied, fleet.ReasonProvisioningFailed: // 403 or 404, which a retry does not change
		default:
			if proj.readErr != nil && proj.Matches(name) {
				cause = &unreadableError{proj.readErr}
			}
		}
		return proj.readErr != nil
	})
	var names []string
	for _, proj := range all {
		if proj.Name == name {
			return proj, nil
		}
		names = append(names, proj.Name)
	}
	for _, proj := range all { // the display name may have changed since the agent was created
		if proj.Matches(name) {
			return proj, nil
		}
	}
	list := "there are none"
	if len(names) > 0 {
		list = "there are " + strings.Join(names, ", ")
	}
	return nil, fleet.Errorf(fleet.ReasonProjectNotFound, "Coder has no template for the project %q: %s", name, list).WithCause(cause)
}

// projects returns all projects, sorted by name, including those with a readErr. It uses the cached list if the list is
// younger than maxAge.
func (p *Place) projects(ctx context.Context, maxAge time.Duration) ([]*templateProject, error) {
	c := &p.catalog
	c.mu.Lock()
	cached, listedAt := c.projects, c.listedAt
	c.mu.Unlock()
	if maxAge > 0 && !listedAt.IsZero() && p.config.Now().Sub(listedAt) < maxAge {
		return cached, ctx.Err()
	}
	templates, err := callCoder(ctx, "listing Coder's templates", func(ctx context.Context) ([]codersdk.Template, error) {
		return p.self.sdk.Templates(ctx, codersdk.TemplateFilter{})
	})
	if err != nil {
		return nil, err
	}
	projects := make([]*templateProject, 0, len(templates))
	for _, t := range templates {
		name, isConfigured := p.configuredName(t.Name)
		proj := &templateProject{template: t, Settings: p.projectSettings(name)}
		v, err := p.version(ctx, t.ActiveVersionID)
		if err != nil && isThrottled(err) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if v == nil { // the version was deleted meanwhile, is not visible for this user, or is broken: continue with the other templates
			v = &version{}
			if !isConfigured {
				proj.readErr = err
			}
		}
		if !isConfigured && proj.readErr == nil && !proj.canHost(v) {
			continue
		}
		displayName := cmp.Or(t.DisplayName, t.Name)
		if !isConfigured {
			name = displayName
		}
		proj.Project = fleet.Project{
			Name: name, DisplayName: displayName, Description: strings.TrimSpace(t.Description), TemplateID: t.ID.String(), TemplateName: t.Name,
			SpecIsTask: proj.startsItself(v), Groups: p.groups(t, name, isConfigured), Parameters: proj.parameters(v), Checks: proj.checks(),
		}
		projects = append(projects, proj)
	}
	if len(templates) == 0 { // an empty list may mean that the token may not see the templates
		if _, err := p.whoami(ctx); err != nil {
			return nil, err
		}
	}
	makeNamesUnique(projects)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.projects, c.listedAt = projects, p.config.Now()
	return projects, nil
}

// groups returns the groups to which the project of the template is restricted. The access in the project's own configuration
// counts first, then that of the template's organization, and then that for all projects.
func (p *Place) groups(t codersdk.Template, name string, isConfigured bool) []string {
	access := p.config.Access
	for organization, o := range p.config.Organizations {
		if strings.EqualFold(organization, t.OrganizationName) && o.Access != nil {
			access = o.Access
		}
	}
	if isConfigured && p.config.Projects[name].Access != nil {
		access = p.config.Projects[name].Access
	}
	return access.AllowedGroups()
}

// configuredName returns the name of the project that the configuration has for the template. isConfigured is false if it has
// none.
func (p *Place) configuredName(template string) (name string, isConfigured bool) {
	for name, proj := range p.config.Projects {
		if strings.EqualFold(proj.Template, template) {
			return name, true
		}
	}
	return "", false
}

// makeNamesUnique makes the names of projects unique and sorts the projects. Several projects can have the same display
// name, which is free text. Names of templates are unique only within an organization.
func makeNamesUnique(all []*templateProject) {
	for _, rename := range []func(*templateProject) string{
		func(proj *templateProject) string { return proj.template.Name },
		func(proj *templateProject) string { return proj.template.OrganizationName + "/" + proj.template.Name },
	} {
		count := map[string]int{}
		for _, proj := range all {
			count[strings.ToLower(proj.Name)]++
		}
		for _, proj := range all {
			if count[strings.ToLower(proj.Name)] > 1 {
				proj.Name = rename(proj)
			}
		}
	}
	slices.SortFunc(all, func(a, b *templateProject) int { return cmp.Compare(a.Name, b.Name) })
}
