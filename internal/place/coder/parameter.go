package coder

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// parameterTypes maps Coder's types of parameters to Fleet's. Parameters of other types are texts.
var parameterTypes = map[string]fleet.ParameterType{
	"number": fleet.ParameterNumber, "bool": fleet.ParameterBool, "list(string)": fleet.ParameterList,
}

// parameters returns the template's parameters that a caller can choose. It leaves out those that Fleet sets itself, and ephemeral
// ones, which apply to only one build, because an agent outlives its builds.
func (s Settings) parameters(v *version) []fleet.Parameter {
	var list []fleet.Parameter
	for i := range v.parameters {
		q := &v.parameters[i]
		if q.Ephemeral || q == s.findRoleParameter(v) || q == s.findSpecParameter(v) || q.Name == ownerParameter || q.Name == publicKeyParameter {
			continue
		}
		p := fleet.Parameter{
			Name: q.Name, DisplayName: q.DisplayName, Description: strings.TrimSpace(cmp.Or(q.DescriptionPlaintext, q.Description)),
			Type: cmp.Or(parameterTypes[q.Type], fleet.ParameterText), Required: q.Required, Default: q.DefaultValue,
			Min: int64Of(q.ValidationMin), Max: int64Of(q.ValidationMax), Pattern: q.ValidationRegex, PatternError: shortLine(q.ValidationError),
		}
		for _, o := range q.Options {
			p.Options = append(p.Options, o.Value)
		}
		list = append(list, p)
	}
	return list
}

func int64Of(n *int32) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

// presetValues returns the values that a preset sets, except for the specification.
func (s Settings) presetValues(v *version, preset codersdk.Preset) map[string]string {
	values := map[string]string{}
	for _, q := range preset.Parameters {
		if spec := s.findSpecParameter(v); spec == nil || spec.Name != q.Name {
			values[q.Name] = q.Value
		}
	}
	return values
}

// toBuildParameters returns the values as parameters of a build, sorted by name.
func toBuildParameters(values map[string]string) []codersdk.WorkspaceBuildParameter {
	var list []codersdk.WorkspaceBuildParameter
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, codersdk.WorkspaceBuildParameter{Name: name, Value: values[name]})
	}
	return list
}

// lookUpValue returns the value with the name, and whether there is one.
func lookUpValue(values []codersdk.WorkspaceBuildParameter, name string) (string, bool) {
	i := slices.IndexFunc(values, func(v codersdk.WorkspaceBuildParameter) bool { return v.Name == name })
	if i < 0 {
		return "", false
	}
	return values[i].Value, true
}

// valueOf returns the value with the name, or "" if there is none.
func valueOf(values []codersdk.WorkspaceBuildParameter, name string) string {
	value, _ := lookUpValue(values, name)
	return value
}

// readBuildParameters returns the parameters of the build, from the cache if possible.
func (p *Place) readBuildParameters(ctx context.Context, acc *account, build uuid.UUID) ([]codersdk.WorkspaceBuildParameter, error) {
	p.factCache.mu.Lock()
	values, cached := p.factCache.byBuild[build]
	p.factCache.mu.Unlock()
	if cached {
		return values, ctx.Err()
	}
	values, err := callCoder(ctx, "reading a workspace's parameters", func(ctx context.Context) ([]codersdk.WorkspaceBuildParameter, error) {
		return acc.sdk.WorkspaceBuildParameters(ctx, build)
	})
	if err != nil {
		return nil, err
	}
	p.factCache.mu.Lock()
	defer p.factCache.mu.Unlock()
	p.factCache.byBuild[build] = values
	delete(p.factCache.failures, build)
	return values, nil
}
