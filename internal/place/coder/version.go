package coder

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// readRetryPause is how long after a failure Fleet reads a template version, or the parameters of a build, again.
const readRetryPause = 30 * time.Second

// readFailure records that a template version, or the parameters of a build, could not be read.
type readFailure struct {
	err      error     // nil if no failure counts
	failedAt time.Time // when the last attempt that counts failed; zero if none counts
	tries    int       // failed attempts; only for the parameters of a build
	partial  *version  // the part of a version that could be read; nil if nothing could be read
}

// version is the cached part of a template version.
type version struct {
	parameters []codersdk.TemplateVersionParameter
	presets    []codersdk.Preset // presets with a name, sorted by name
}

// versionOrRecentError returns the template version. If reading it failed less than readRetryPause ago, versionOrRecentError does not try
// again and returns the same error. With an error, it returns the part that could be read, or nil.
func (p *Place) versionOrRecentError(ctx context.Context, id uuid.UUID) (*version, error) {
	c := &p.catalog
	c.mu.Lock()
	failure, failed := c.failures[id]
	c.mu.Unlock()
	now := p.config.Now()
	if failed && now.Sub(failure.failedAt) < readRetryPause {
		return failure.partial, failure.err
	}
	v, err := p.version(ctx, id)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failures, id)
	if err != nil && !isThrottled(err) {
		if len(c.failures) > 1000 {
			clear(c.failures)
		}
		c.failures[id] = readFailure{err: err, failedAt: now, partial: v}
	}
	return v, err
}

// version returns the template version, from the cache if possible. With an error, it returns nil, or the version
// without presets.
func (p *Place) version(ctx context.Context, id uuid.UUID) (*version, error) {
	c := &p.catalog
	c.mu.Lock()
	v := c.versions[id]
	c.mu.Unlock()
	if v != nil {
		return v, ctx.Err()
	}
	v = &version{}
	var err error
	v.parameters, err = callCoder(ctx, "reading a template's parameters", func(ctx context.Context) ([]codersdk.TemplateVersionParameter, error) {
		return p.self.sdk.TemplateVersionRichParameters(ctx, id)
	})
	if err != nil {
		return nil, err
	}
	presets, err := callCoder(ctx, "reading a template's presets", func(ctx context.Context) ([]codersdk.Preset, error) {
		return p.self.sdk.TemplateVersionPresets(ctx, id)
	})
	if err != nil {
		return v, err
	}
	for _, preset := range presets { // Coder returns presets in any order, and some have no name
		if strings.TrimSpace(preset.Name) != "" {
			v.presets = append(v.presets, preset)
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

// findRoleParameter returns the parameter for the agent's role. It returns nil if the version does not have it, or if it has no
// options.
func (s Settings) findRoleParameter(v *version) *codersdk.TemplateVersionParameter {
	p := v.parameter(nameOrDefaults(s.RoleParameter, roleParameters)...)
	if p == nil || len(p.Options) == 0 {
		return nil
	}
	return p
}

// findSpecParameter returns the parameter for the agent's specification, or nil if the version does not have it.
func (s Settings) findSpecParameter(v *version) *codersdk.TemplateVersionParameter {
	return v.parameter(nameOrDefaults(s.SpecParameter, specParameters)...)
}

// canHost reports whether the version has one of the parameters of templates that can host agents.
func (s Settings) canHost(v *version) bool {
	return s.findSpecParameter(v) != nil || v.parameter(nameOrDefaults(s.RoleParameter, roleParameters)...) != nil || v.parameter(hostParameters...) != nil
}

// promptParameters are names of parameters that usually hold an agent's first prompt.
var promptParameters = []string{"AI Prompt", "ai_prompt"}

// startsItself reports whether an agent of the template starts to work on its specification by itself.
func (s Settings) startsItself(v *version) bool {
	spec := s.findSpecParameter(v)
	if spec == nil || s.SpecIsTask != nil {
		return spec != nil && *s.SpecIsTask
	}
	return slices.Contains(promptParameters, spec.Name)
}
