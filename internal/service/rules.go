package service

import (
	"context"
	"fmt"
	"slices"

	"fleet/internal/fleet"
)

// addAllowedRules adds the rules of an answered question to those of the agent. It removes the rules that hold only in other tasks. The
// error is LIMIT_REACHED if the agent would have more than fleet.MaxAllowedRules rules.
func addAllowedRules(a *fleet.Agent, q *fleet.Question) error {
	rules := slices.DeleteFunc(slices.Clone(a.Rules), func(r fleet.AllowedRule) bool { return r.TaskID != "" && r.TaskID != q.TaskID })
	for _, rule := range q.Rules {
		added := fleet.AllowedRule{Rule: rule, By: q.AnsweredBy, At: q.AnsweredAt}
		if q.Remember == fleet.RememberTask {
			added.TaskID = q.TaskID
		}
		if slices.ContainsFunc(rules, func(r fleet.AllowedRule) bool { return r.Rule == rule && (r.TaskID == "" || r.TaskID == added.TaskID) }) {
			continue
		}
		rules = append(rules, added)
	}
	if len(rules) > fleet.MaxAllowedRules {
		return fleet.Errorf(fleet.ReasonLimitReached, "the agent has %d allowed rules, and the limit is %d: remove some, or allow the call once", len(a.Rules), fleet.MaxAllowedRules).
			AtLimit("rules", int64(len(a.Rules)), fleet.MaxAllowedRules).Next("{remove_agent_rule} removes a rule")
	}
	a.Rules = rules
	return nil
}

// RemoveRuleRequest names an agent and a rule that somebody has allowed it.
type RemoveRuleRequest struct {
	Agent, Rule string
	RequestID   string `json:"-"`
}

// RemoveRule removes a rule of the agent, whether it holds in one task or in all tasks, and returns the agent. It is not an error if
// the agent does not have the rule.
func (s *Service) RemoveRule(ctx context.Context, r RemoveRuleRequest) (*fleet.Agent, string, error) {
	if r.Rule == "" {
		return nil, "", fleet.InvalidField("rule", "rule is required").Next("{show_agent} lists the rules")
	}
	if len(r.Rule) > fleet.MaxRuleSize {
		return nil, "", fleet.InvalidField("rule", "rule has %d bytes: give at most %d", len(r.Rule), fleet.MaxRuleSize)
	}
	c := Call{Method: "RemoveAgentRule", RequestID: r.RequestID, Body: r}
	v, _, err := s.agent(ctx, r.Agent, fleet.AccessRun)
	c.Refusal = err
	v, err = s.changeAgent(ctx, c, v, fleet.AccessRun, func(_ fleet.Tx, a *fleet.Agent) (*fleet.Event, error) {
		before := len(a.Rules)
		a.Rules = slices.DeleteFunc(slices.Clone(a.Rules), func(old fleet.AllowedRule) bool { return old.Rule == r.Rule })
		if len(a.Rules) == before {
			return nil, nil //nolint:nilnil // nothing changes
		}
		if len(a.Rules) == 0 {
			a.Rules = nil
		}
		return a.Event(fleet.EventAgentChanged, s.now(), "no longer allowed without a question: "+r.Rule), nil
	})
	if err != nil {
		return nil, "", err
	}
	return &v.Agent, fmt.Sprintf("Agent '%s' asks again before it uses %s, from its next task on", v.Name, fleet.Shorten(r.Rule, 200)), nil
}
