package app

import (
	"fmt"
	"log/slog"

	"fleet/internal/backend/fake"
	"fleet/internal/fleet"
)

// newBackend returns the backend that the configuration names.
func newBackend(cfg Config, log *slog.Logger) (fleet.Backend, error) {
	switch cfg.Backend {
	case "fake":
		return fake.New(fake.Config{}), nil
	}
	return nil, fmt.Errorf("backend is %q: it is local or fake", cfg.Backend)
}
