package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// importedFile is the file in the data directory that says that its SQLite store was imported into Postgres.
const importedFile = "imported"

// markImported records that the SQLite store was imported into Postgres. An earlier record stays.
func (c Config) markImported(at time.Time) error {
	return writeNewFile(filepath.Join(c.Data, importedFile), at.UTC().Format(time.RFC3339))
}

// checkImported returns an error if the SQLite store was imported into Postgres. A server on it would run the agents that a
// server on Postgres runs too.
func (c Config) checkImported() error {
	path := filepath.Join(c.Data, importedFile)
	at, err := os.ReadFile(path) //nolint:gosec // in our data directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s was imported into Postgres at %s, and the agents belong to that database now: set store (FLEET_STORE) to it; to go back to SQLite, stop all servers on that database and remove %s",
		c.sqlitePath(), strings.TrimSpace(string(at)), path)
}
