package providers

import (
	"fmt"
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
		s.secretVariables = append(s.secretVariables, table[i].KeyVariables...)
	}
	s.secretVariables = append(s.secretVariables, cfg.ToolEnv...)
	slices.Sort(s.secretVariables)
	s.secretVariables = slices.DeleteFunc(slices.Compact(s.secretVariables), isSetting)
	return s, nil
}

// isSetting reports whether the name of a variable means that it holds a setting and not a secret.
func isSetting(variable string) bool {
	for _, end := range []string{"_MODEL", "_PROVIDER", "_URL", "_HOST", "_REGION", "_PROJECT"} {
		if strings.HasSuffix(variable, end) {
			return true
		}
	}
	return false
}

// findKey returns the name and the value of the first variable of p.KeyVariables that is set. Both are empty if none is set.
func (s *Service) findKey(p *Provider) (variable, value string) {
	for _, k := range p.KeyVariables {
		if v := strings.TrimSpace(s.cfg.Getenv(k)); v != "" {
			return k, v
		}
	}
	return "", ""
}

// missingKeyText returns the text for a provider none of whose key variables is set.
func missingKeyText(p *Provider) string {
	if len(p.KeyVariables) == 1 {
		return fmt.Sprintf("There is no key: set %s in the server's environment", p.KeyVariables[0])
	}
	return fmt.Sprintf("There is no key: set one of %s in the server's environment", strings.Join(p.KeyVariables, ", "))
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
