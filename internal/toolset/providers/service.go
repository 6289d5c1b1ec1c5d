package providers

import (
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sync/singleflight"

	"fleet/internal/service"
)

// Service implements the toolset. Every method acts for the principal in its context. Methods are safe for concurrent
// use.
type Service struct {
	core             *service.Service
	probeEnvironment ProbeEnvironment
	cfg              Config
	log              *slog.Logger
	table            []Provider         // sorted by name
	secretVariables  []string           // the environment variables that hold secrets, sorted
	probes           singleflight.Group // by provider
}

// New returns a service over the core that probes programs and servers in environment. It returns an error if the
// configuration is invalid.
func New(core *service.Service, environment ProbeEnvironment, cfg Config) (*Service, error) {
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
