package record

import "fleet/internal/fleet"

// ScanTool returns the tool of a row with its owner, agent, specification and times.
func ScanTool(row Scanner) (*fleet.RegisteredTool, error) {
	var r fleet.RegisteredTool
	return &r, row.Scan(&r.Owner, &r.Agent, jsonInto{&r.Tool}, (*Time)(&r.CreatedAt), (*Time)(&r.UpdatedAt))
}
