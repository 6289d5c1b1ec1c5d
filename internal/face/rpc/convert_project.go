package rpc

import (
	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

func projectOf(p fleet.Project) *fleetv1.Project {
	return &fleetv1.Project{
		Name: p.Name, DisplayName: p.DisplayName, Description: p.Description, TemplateId: p.TemplateID, TemplateName: p.TemplateName, Place: p.Place,
		Parameters: listOf(p.Parameters, parameterOf), MaxCostUsd: optional(p.MaxCost.USD()),
	}
}

func parameterOf(q fleet.Parameter) *fleetv1.ProjectParameter {
	return &fleetv1.ProjectParameter{
		Name: textOf(q.Name), DisplayName: textOf(q.DisplayName), Description: textOf(q.Description), Type: string(q.Type),
		Required: q.Required, Default: textOf(q.Default), Options: listOf(q.Options, textOf),
	}
}

func roleOf(r fleet.Role) *fleetv1.Role {
	return &fleetv1.Role{Name: r.Name, DisplayName: r.DisplayName, Description: r.Description, Default: r.Default, MaxCostUsd: optional(r.MaxCost.USD())}
}
