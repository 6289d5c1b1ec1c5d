package rpc

import (
	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

func projectOf(p fleet.Project) *fleetv1.Project {
	out := &fleetv1.Project{
		Name: p.Name, DisplayName: p.DisplayName, Description: p.Description, TemplateId: p.TemplateID, TemplateName: p.TemplateName, Place: p.Place,
		Parameters: make([]*fleetv1.ProjectParameter, 0, len(p.Parameters)), MaxCostUsd: optional(p.MaxCost.USD()),
	}
	for _, q := range p.Parameters {
		out.Parameters = append(out.Parameters, &fleetv1.ProjectParameter{
			Name: textOf(q.Name), DisplayName: textOf(q.DisplayName), Description: textOf(q.Description), Type: string(q.Type),
			Required: q.Required, Default: textOf(q.Default), Options: textsOf(q.Options),
		})
	}
	return out
}

func roleOf(r fleet.Role) *fleetv1.Role {
	return &fleetv1.Role{Name: r.Name, DisplayName: r.DisplayName, Description: r.Description, Default: r.Default, MaxCostUsd: optional(r.MaxCost.USD())}
}
