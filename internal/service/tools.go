package service

import (
	"context"
	"slices"

	"fleet/internal/fleet"
)

// Tools returns the tools that the caller has registered, sorted by their first registration.
func (s *Service) Tools(ctx context.Context) ([]*fleet.RegisteredTool, error) {
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) ([]*fleet.RegisteredTool, error) { return tx.Tools(p.Name) })
}

// RegisterTool stores the tool for the agent, or for all agents of the caller if agent is empty. It replaces the caller's tool with the
// same name for the same agent. before contains the caller's tools before the call; it is nil for a repeated request. The error is
// LIMIT_REACHED if the caller would have more than maxTools tools.
func (s *Service) RegisterTool(ctx context.Context, c Call, tool fleet.Tool, agent string, maxTools int) (before []*fleet.RegisteredTool, err error) {
	_, repeated, err := s.Once(ctx, c, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		if before, err = tx.Tools(p.Name); err != nil {
			return CallResult{}, err
		}
		same := func(t *fleet.RegisteredTool) bool { return t.Name == tool.Name && t.Agent == agent }
		if len(before) >= maxTools && !slices.ContainsFunc(before, same) {
			return CallResult{}, fleet.Errorf(fleet.ReasonLimitReached, "you have %d tools and the limit is %d: remove one, or replace one by registering a tool with its name",
				len(before), maxTools).AtLimit("registered tools", int64(len(before)), int64(maxTools)).After(fleet.LimitRetryAfter)
		}
		now := s.now()
		return CallResult{}, tx.Insert(&fleet.RegisteredTool{Tool: tool, Owner: p.Name, Agent: agent, CreatedAt: now, UpdatedAt: now})
	})
	if repeated {
		before = nil
	}
	return before, err
}

// RemoveTools removes the caller's tools with the name: only the one for the agent, or all of them if agent is empty. before contains
// the caller's tools before the call.
func (s *Service) RemoveTools(ctx context.Context, name, agent string) (removed, before []*fleet.RegisteredTool, err error) {
	err = s.updateAs(ctx, func(tx fleet.Tx, p fleet.Principal) error {
		removed = nil
		if before, err = tx.Tools(p.Name); err != nil {
			return err
		}
		for _, t := range before {
			if t.Name != name || agent != "" && t.Agent != agent {
				continue
			}
			if err := tx.Delete(t); err != nil {
				return err
			}
			removed = append(removed, t)
		}
		return nil
	})
	return removed, before, err
}
