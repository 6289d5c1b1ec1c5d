package providers

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Core is the part of the core that a Service uses. *service.Service implements it, and documents the methods.
type Core interface {
	Launch(ctx context.Context, r service.LaunchRequest) (*fleet.AgentView, error)
	FollowTask(ctx context.Context, taskID string, after int64, sink func(fleet.Event) error) (*fleet.Task, error)
	Payload(ctx context.Context, taskID string) ([]byte, error)
	RequestTaskStop(ctx context.Context, id string) error
	Detach(ctx context.Context, taskID string) error
	StopByUID(ctx context.Context, agentUID string) (*fleet.Task, error)
	TraitsWithDriver(driver string) (fleet.Traits, bool)
	Tools(ctx context.Context) ([]*fleet.RegisteredTool, error)
	RegisterTool(ctx context.Context, c service.Call, tool fleet.Tool, agent string, maxTools int) (before []*fleet.RegisteredTool, err error)
	RemoveTools(ctx context.Context, name, agent string) (removed, before []*fleet.RegisteredTool, err error)
}

// Service implements the toolset. Every method acts for the principal in its context. Methods are safe for concurrent
// use.
type Service struct {
	core             Core
	probeEnvironment ProbeEnvironment
	cfg              Config
	log              *slog.Logger
	table            []Provider // sorted by name
	secretVariables  []string   // the environment variables that hold secrets, sorted
	probes           probes
}

// New returns a service over the core that probes programs and servers in environment. It returns an error if the
// configuration is invalid.
func New(core Core, environment ProbeEnvironment, cfg Config) (*Service, error) {
	if err := cfg.Validate(cfg.Drivers); err != nil {
		return nil, err
	}
	table, err := cfg.table(cfg.Drivers)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Service{core: core, probeEnvironment: environment, cfg: cfg, log: cfg.Logger, table: table}
	for i := range table {
		s.secretVariables = append(s.secretVariables, table[i].Keys...)
	}
	s.secretVariables = append(s.secretVariables, cfg.ToolEnv...)
	slices.Sort(s.secretVariables)
	s.secretVariables = slices.DeleteFunc(slices.Compact(s.secretVariables), notSecret)
	return s, nil
}

// notSecret reports whether the name of a variable means that it holds a setting and not a secret.
func notSecret(variable string) bool {
	for _, end := range []string{"_MODEL", "_PROVIDER", "_URL", "_HOST", "_REGION", "_PROJECT"} {
		if strings.HasSuffix(variable, end) {
			return true
		}
	}
	return false
}

// find returns the provider with the name; nil if there is none. It ignores case, and spaces around the name.
func (s *Service) find(name string) *Provider {
	name = strings.ToLower(strings.TrimSpace(name))
	i, found := slices.BinarySearchFunc(s.table, name, func(p Provider, n string) int { return strings.Compare(p.Name, n) })
	if !found {
		return nil
	}
	return &s.table[i]
}

// names returns the names of the providers for which ok returns true.
func (s *Service) names(ok func(*Provider) bool) (names []string) {
	for i := range s.table {
		if ok(&s.table[i]) {
			names = append(names, s.table[i].Name)
		}
	}
	return names
}

func anyProvider(*Provider) bool { return true }
