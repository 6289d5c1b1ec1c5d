//go:build cgo

package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/tools"
)

// scriptTools restricts the library's toolset of scripts: each script accepts only its declared arguments. The library passes
// arguments as environment variables, so without this check a model could set PATH.
type scriptTools struct {
	tools.ToolSet
	scripts map[string]latest.ScriptShellToolConfig
}

// NewScripts returns the toolset s of the scripts, restricted to their declared arguments.
func NewScripts(s tools.ToolSet, scripts map[string]latest.ScriptShellToolConfig) tools.ToolSet {
	return &scriptTools{s, scripts}
}

// Tools implements tools.ToolSet.
func (s *scriptTools) Tools(ctx context.Context) ([]tools.Tool, error) {
	all, err := s.ToolSet.Tools(ctx)
	for i, t := range all {
		all[i].Handler = func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
			var args map[string]any
			if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil {
				return tools.ResultError("The arguments are not a JSON object: " + err.Error()), nil
			}
			for name := range args {
				if _, ok := s.scripts[t.Name].Args[name]; !ok {
					return tools.ResultError(fmt.Sprintf("There is no argument %q.", name)), nil
				}
			}
			return t.Handler(ctx, c)
		}
	}
	return all, err
}
