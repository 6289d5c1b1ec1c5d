package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/sqlite"
)

// sqlitePath returns the path of the SQLite database.
func (c Config) sqlitePath() string { return filepath.Join(c.Data, "fleet.db") }

// openStore opens the store that the configuration names, and upgrades its schema.
func (c Config) openStore(ctx context.Context, clock func() time.Time, log *slog.Logger) (fleet.Store, error) {
	if c.Store != "" {
		return postgres.Open(ctx, c.Store, postgres.Config{Clock: clock, Logger: log})
	}
	return sqlite.Open(ctx, c.sqlitePath(), sqlite.Config{Clock: clock, Logger: log})
}

// shownStore returns the location of the store, without a password, for logs and messages.
func (c Config) shownStore() string {
	if c.Store != "" {
		return postgres.Redact(c.Store)
	}
	return c.sqlitePath()
}
