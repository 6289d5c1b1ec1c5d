package providers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/toolset/conversation"
)

// MaxTimeout is the longest timeout that a request can have.
const MaxTimeout = 24 * time.Hour

// MaxCapabilities is how many capabilities a request can require.
const MaxCapabilities = 50

// ExecuteRequest is a request to a provider. Callers know providers as agents.
type ExecuteRequest struct {
	Agent        string // name of the provider
	Prompt       string
	Context      map[string]any // information that the agent reads before the prompt
	Capabilities []string       // capabilities that the agent should have; a missing one gives a warning
	Timeout      *int           // in seconds; nil means Settings.Timeout
	Config       map[string]any // overrides of the provider's settings
	RequestID    string
}

// Result is the result of a request. If the request failed, Error says why.
type Result struct {
	Content  string
	Error    string // empty on success
	Warnings []string
	Duration time.Duration

	Agent   string // name of the provider
	Kind    Kind   // empty if there is no such provider
	Model   string
	TaskID  string // empty if nothing was started
	Usage   fleet.Usage
	CostUSD float64
	Turns   int
}

// Execute gives the request to the agent and waits for the result. If the agent does not exist, has no key, takes too
// long or fails, the result is a Result with an Error. Execute returns INVALID_ARGUMENT for a request that can never
// succeed, and LIMIT_REACHED for a request beyond the caller's limits. It does not wait if the call is detached
// (fleet.Detached). If the caller disconnects, Execute stops the run, unless the run continues after the call (fleet.WorkContinues).
func (s *Service) Execute(ctx context.Context, r ExecuteRequest) (*Result, error) {
	who, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	timeout, err := s.checkRequest(r)
	if err != nil {
		return nil, err
	}
	prompt, err := promptOf(r.Prompt, r.Context)
	if err != nil {
		return nil, err
	}
	p := s.find(r.Agent)
	if p == nil {
		return &Result{Agent: shorten(r.Agent), Error: s.unknownAgentText(r.Agent)}, nil
	}
	if err := checkConfig(p, r.Config); err != nil {
		return nil, err
	}
	config, dropWarnings := dropUnsupported(p, r.Config)
	result := &Result{Agent: p.Name, Kind: p.Kind, Model: modelOf(p, config), Warnings: append(p.missingCapabilities(r.Capabilities), dropWarnings...)}
	keyVariable, _ := s.findKey(p)
	if p.Kind == KindAPI && keyVariable == "" {
		result.Error = missingKeyText(p)
		return result, nil
	}
	tools, warnings, err := s.toolsFor(ctx, who, p)
	if err != nil {
		return nil, err
	}
	result.Warnings = append(result.Warnings, warnings...)
	agentConfig, err := s.agentConfig(who, p, keyVariable, config, tools)
	if err != nil {
		return nil, err
	}
	return s.launchAndWait(ctx, result, service.LaunchRequest{
		Method: "ExecuteAgentRequest", Toolset: fleet.ToolsetProviders, Config: agentConfig, Name: p.Name,
		OneTask: true, Prompt: prompt, Timeout: timeout, RequestID: r.RequestID, Admit: s.admit,
	})
}

// checkRequest checks the request and returns its timeout.
func (s *Service) checkRequest(r ExecuteRequest) (time.Duration, error) {
	if r.Agent == "" {
		return 0, fleet.InvalidField("agent_name", "agent_name is required: name an agent").Next("{list_available_agents} lists them")
	}
	if len(r.Capabilities) > MaxCapabilities {
		return 0, fleet.InvalidField("capabilities", "capabilities has %d entries, and the limit is %d", len(r.Capabilities), MaxCapabilities)
	}
	if r.Timeout == nil {
		return s.cfg.Timeout, nil
	}
	if maxSeconds := int(MaxTimeout.Seconds()); *r.Timeout < 1 || *r.Timeout > maxSeconds {
		return 0, fleet.InvalidField("timeout", "timeout is %d: give 1 to %d seconds", *r.Timeout, maxSeconds)
	}
	return time.Duration(*r.Timeout) * time.Second, nil
}

// missingCapabilities returns a warning for each capability that the provider does not have.
func (p *Provider) missingCapabilities(wanted []string) (warnings []string) {
	for i, c := range wanted {
		if name := strings.ToLower(strings.TrimSpace(c)); !slices.Contains(p.Capabilities, name) && !slices.Contains(wanted[:i], c) {
			warnings = append(warnings, fmt.Sprintf("The agent %q does not support %q: it has %s", p.Name, shorten(c), strings.Join(p.Capabilities, ", ")))
		}
	}
	return warnings
}

// launchAndWait launches the agent, waits for its task, and returns result with the outcome. If the task takes longer than
// r.Timeout, or the caller disconnects, it stops the task. See Execute for calls that are detached or continue.
//
// It waits Config.StopGrace longer than the timeout, because within this time the host normally ends the run and reports its usage.
// Fleet stops a run that has not ended by then. The stop may take as long again.
func (s *Service) launchAndWait(ctx context.Context, result *Result, r service.LaunchRequest) (*Result, error) {
	if _, ok := s.core.TraitsWithDriver(r.Config.Driver); !ok {
		result.Error = fmt.Sprintf("The agent %q cannot run on this server: no place has the driver %q", result.Agent, r.Config.Driver)
		return result, nil
	}
	startedAt := time.Now()
	waitCtx, cancel := context.WithTimeout(ctx, r.Timeout+s.cfg.StopGrace)
	defer cancel()
	v, err := s.core.Launch(waitCtx, r)
	if err != nil {
		return nil, err
	}
	result.TaskID = v.Task.ID
	if fleet.Detached(ctx) {
		return result, s.core.Detach(ctx, result.TaskID)
	}
	var warnings conversation.Warnings
	task, err := s.core.FollowTask(waitCtx, v.Task.ID, 0, warnings.AddEvent)
	for _, w := range warnings {
		result.Warnings = append(result.Warnings, s.redact(w))
	}
	if err == nil {
		return s.completeResult(ctx, result, task, r.Timeout)
	}
	if fleet.WorkContinues(ctx) { // the request can be repeated
		return nil, err
	}
	stopCtx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopGrace)
	defer cancelStop()
	if ctx.Err() != nil { // the caller has disconnected: stop without waiting; the task records the usage
		return nil, errors.Join(err, s.core.RequestTaskStop(stopCtx, v.Task.ID))
	}
	timedOut := waitCtx.Err() != nil
	task, stopErr := s.core.StopByUID(stopCtx, v.UID)
	if !timedOut || stopErr != nil { // the store has failed
		return nil, errors.Join(err, stopErr)
	}
	result.Duration = time.Since(startedAt)
	if task.Status != fleet.TaskStopped { // the task has ended before the stop
		return s.completeResult(ctx, result, task, r.Timeout)
	}
	result.Error = timeoutText(r.Timeout)
	return result, nil
}

func timeoutText(timeout time.Duration) string {
	return fmt.Sprintf("The request took longer than its timeout of %s and was stopped: give it a longer timeout, or ask for less", secondsText(timeout))
}

func secondsText(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// completeResult adds the outcome of the ended task to result, and returns result.
func (s *Service) completeResult(ctx context.Context, result *Result, t *fleet.Task, timeout time.Duration) (*Result, error) {
	result.Duration = t.EndedAt.Sub(t.CreatedAt)
	result.Usage, result.CostUSD, result.Turns = t.Usage, t.CostUSD, t.Turns
	if t.Usage.Model != "" {
		result.Model = t.Usage.Model
	}
	content := t.Summary
	if t.PayloadSize > 0 {
		payload, err := s.core.Payload(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		content = string(payload)
	}
	result.Content = s.withoutSecrets(strings.TrimRight(content, "\r\n")) // programs end their output with a newline
	switch {
	case t.Status == fleet.TaskCompleted:
	case result.Duration >= timeout:
		result.Error = timeoutText(timeout)
	default:
		result.Error = s.redact(fmt.Sprintf("The agent %q %s", result.Agent, t.Failure()))
	}
	return result, nil
}

// Tokens returns how many tokens the request has used, at most math.MaxInt32, or 0 if that is unknown.
func (r *Result) Tokens() int {
	return int(min(r.Usage.InputTokens+r.Usage.OutputTokens, math.MaxInt32))
}
