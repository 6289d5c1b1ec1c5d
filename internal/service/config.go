package service

import (
	"context"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

// ReloadResult describes a reload of the configuration.
type ReloadResult struct {
	File         string        // the file that was read; empty if there is none
	Changes      []string      // names of the settings that have changed
	ClosedAgents []fleet.Agent // the agents at this server's places that accept no tasks, see fleet.HostFacts.ClosedReason
}

// ReloadConfig reads the server's configuration again, as state.Config.Reload does. If the error is CONFIG_INVALID or
// RESTART_NEEDED, nothing was changed. Package admission lets only admins call ReloadConfig.
func (s *Service) ReloadConfig(ctx context.Context) (ReloadResult, error) {
	if s.cfg.Reload == nil {
		return ReloadResult{}, fleet.Errorf(fleet.ReasonUnimplemented, "this server has no configuration file: start it with fleet serve")
	}
	file, changes, err := s.cfg.Reload(ctx)
	if err != nil {
		return ReloadResult{}, err
	}
	if err := s.snap.Refresh(ctx); err != nil {
		return ReloadResult{}, err
	}
	result := ReloadResult{File: file, Changes: changes}
	for _, v := range s.snap.All() {
		if v.Host.ClosedReason != "" && v.DeletedAt.IsZero() && s.places.Configured(v.Place) != nil {
			result.ClosedAgents = append(result.ClosedAgents, v.Agent)
		}
	}
	return result, nil
}

// Message describes the reload for people.
func (r ReloadResult) Message() string {
	message := "Nothing has changed."
	if len(r.Changes) > 0 {
		message = "Changed: " + strings.Join(r.Changes, ", ") + "."
	}
	if len(r.ClosedAgents) > 0 {
		message += fmt.Sprintf(" Agents that accept no tasks, because their project or role is gone: %s.", countedNames(r.ClosedAgents))
	}
	return message
}

// countedNames returns the number of agents and their names, for a message.
func countedNames(agents []fleet.Agent) string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	return fmt.Sprintf("%d (%s)", len(names), fleet.Shorten(strings.Join(names, ", "), 200))
}
