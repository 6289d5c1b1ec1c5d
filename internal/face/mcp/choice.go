package mcp

import (
	"fmt"
	"path"
	"slices"

	"fleet/gen/fleet/v1/fleetv1mcp"
	"fleet/internal/face/mcp/tool"
)

// filterTools leaves only those tools in the fleet toolset that c.Tools chooses. If c.Tools is empty, these tools get their
// brief input schemas.
func (c Config) filterTools(sets []tool.Set) []tool.Set {
	for i, s := range sets {
		if s.Name == defaultToolset {
			sets[i].Tools = slices.DeleteFunc(s.Tools, func(t tool.Tool) bool { return !c.includes(t) })
			for j, t := range sets[i].Tools {
				if len(c.Tools) == 0 && len(t.BriefInput) > 0 {
					sets[i].Tools[j].RawInputSchema = t.BriefInput
				}
			}
		}
	}
	return sets
}

func (c Config) includes(t tool.Tool) bool {
	if len(c.Tools) == 0 {
		return !t.Operator
	}
	return t.Contract || slices.ContainsFunc(c.Tools, func(pattern string) bool { return matches(pattern, t.Name) })
}

func matches(pattern, toolName string) bool {
	ok, err := path.Match(pattern, toolName)
	return ok && err == nil
}

// CheckTools returns an error if one of the patterns does not match any tool of the fleet toolset.
func CheckTools(patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	tools := fleetv1mcp.FleetServiceToolset(nil).Tools
	for _, pattern := range patterns {
		if !slices.ContainsFunc(tools, func(t tool.Tool) bool { return matches(pattern, t.Name) }) {
			return fmt.Errorf("no tool matches %q: write a name from tools/list of /mcp/all, or a pattern such as \"*_task\"", pattern)
		}
	}
	return nil
}
